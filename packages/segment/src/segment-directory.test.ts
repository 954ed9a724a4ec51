import assert from 'node:assert/strict'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeRow, makeRows, sealBlocks, witnessedAtMs } from '../tests/rows.ts'
import { scratchDirectory } from '../tests/scratch.ts'
import { auditSegment } from './audit-segment.ts'
import { planSnapshot } from './plan-snapshot.ts'
import type { Row } from './row.ts'
import { SegmentDirectory } from './segment-directory.ts'

function openDirectory(
  directory: string,
  options: { segmentBytesMax?: number } = {},
): Promise<SegmentDirectory> {
  return SegmentDirectory.open({ directory, now: () => witnessedAtMs, ...options })
}

/** All rows from a position on, as a replay reads them. */
async function readFrom(directory: SegmentDirectory, afterSeq: number): Promise<Row[]> {
  const rows: Row[] = []
  let seq = afterSeq
  for (;;) {
    const location = directory.firstBlockAfter(seq)
    if (!location) return rows
    const block = await directory.readBlock(location)
    rows.push(...block.rows().slice(block.firstAfter(seq)))
    seq = location.entry.maxSeq
  }
}

test('rows are readable from every position, whether sealed or not', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  const rows = makeRows(3, 30)
  for (let i = 0; i < rows.length; i += 4) {
    await directory.append(rows.slice(i, i + 4))
    if (i % 12 === 8) await directory.rotate()
  }
  assert.equal(directory.sealed.length, 2)
  assert.equal(directory.activeBlocks.length, 1)
  assert.equal(directory.lastSeq, 30)
  for (let seq = 0; seq <= 31; seq++) {
    assert.deepEqual(
      await readFrom(directory, seq),
      rows.filter((row) => row.seq > seq),
    )
  }
})

test('a directory opened again goes on where it stopped', async () => {
  await using scratch = await scratchDirectory()
  for (let round = 0; round < 4; round++) {
    await using directory = await openDirectory(scratch.path)
    assert.equal(directory.lastSeq, round * 10)
    assert.equal(directory.bytesCut, 0)
    await directory.append(makeRows(round * 10 + 1, round * 10 + 10))
    if (round % 2 === 1) await directory.rotate()
  }
  await using directory = await openDirectory(scratch.path)
  assert.deepEqual(
    directory.sealed.map(({ index, header }) => [index, header.minSeq, header.maxSeq]),
    [
      [0, 1, 20],
      [1, 21, 40],
    ],
  )
  assert.deepEqual(await readFrom(directory, 0), makeRows(1, 40))
})

test('a segment is sealed when its blocks reach the size, before the next block is written', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path, { segmentBytesMax: 600 })
  assert.equal(await directory.rotateIfDue(), undefined)
  while (directory.sealed.length < 3) {
    await directory.append(makeRows(directory.lastSeq + 1, directory.lastSeq + 5))
  }
  for (const { header } of directory.sealed) {
    const blockBytes = header.footerOffset - 256
    assert.ok(blockBytes >= 600 && blockBytes < 1000, `${blockBytes} bytes`)
  }
})

test('a segment is sealed when its oldest row is a day old, also when nothing more comes', async () => {
  await using scratch = await scratchDirectory()
  const dayMs = 24 * 60 * 60 * 1000
  let nowMs = witnessedAtMs
  await using directory = await SegmentDirectory.open({ directory: scratch.path, now: () => nowMs })
  nowMs += 10 * dayMs
  assert.equal(await directory.rotateIfDue(), undefined, 'an empty segment has no age')
  nowMs = witnessedAtMs + dayMs - 1
  await directory.append([makeRow(1, { witnessedAt: witnessedAtMs * 1000 })])
  assert.equal(await directory.rotateIfDue(), undefined)
  nowMs += 1
  assert.equal((await directory.rotateIfDue())?.name, 'seg_0000000000.jss')
  assert.equal(await directory.rotateIfDue(), undefined)

  await directory.append([makeRow(2, { witnessedAt: nowMs * 1000 })])
  nowMs += dayMs
  await directory.append([makeRow(3, { witnessedAt: nowMs * 1000 })])
  assert.deepEqual(
    directory.sealed.map(({ header }) => header.maxSeq),
    [1, 2],
  )
})

test('a segment is sealed at the age of its oldest row, also after a restart', async () => {
  await using scratch = await scratchDirectory()
  const hourMs = 3_600_000
  let nowMs = witnessedAtMs
  const options = { directory: scratch.path, segmentAgeMsMax: hourMs, now: () => nowMs }
  {
    await using directory = await SegmentDirectory.open(options)
    await directory.append([makeRow(1, { witnessedAt: witnessedAtMs * 1000 })])
  }
  nowMs += hourMs - 1
  await using again = await SegmentDirectory.open(options)
  assert.equal(await again.rotateIfDue(), undefined)
  nowMs += 1
  assert.equal((await again.rotateIfDue())?.name, 'seg_0000000000.jss')
})

test('rows of a time when the clock was ahead do not keep a segment from its age', async () => {
  await using scratch = await scratchDirectory()
  const hourMs = 3_600_000
  // The clock was a thousand hours ahead, and is set right before the rows are written.
  let nowMs = witnessedAtMs
  await using directory = await SegmentDirectory.open({
    directory: scratch.path,
    segmentAgeMsMax: hourMs,
    now: () => nowMs,
  })
  nowMs -= 1000 * hourMs
  await directory.append(makeRows(1, 3))
  assert.equal(await directory.rotateIfDue(), undefined)
  nowMs += hourMs
  assert.equal((await directory.rotateIfDue())?.name, 'seg_0000000000.jss')
})

test('sealing on demand takes what is there and does nothing when there is nothing', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  assert.equal(await directory.rotate(), undefined)
  await directory.append(makeRows(1, 2))
  const sealed = await directory.rotate()
  assert.ok(sealed)
  assert.deepEqual(await auditSegment(sealed), [])
  assert.equal(await directory.rotate(), undefined)
  assert.equal(directory.findSealed(0), sealed)
  assert.deepEqual(await readdir(scratch.path), ['seg_0000000000.jss', 'seg_0000000001.jss'])
})

test('appends and rotations asked for at once happen in turn', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  const work: Promise<unknown>[] = []
  for (let i = 0; i < 12; i++) {
    work.push(directory.append(makeRows(i * 5 + 1, i * 5 + 5)))
    if (i % 3 === 2) work.push(directory.rotate(), directory.rotateIfDue())
  }
  await Promise.all(work)
  assert.equal(directory.sealed.length, 4)
  assert.deepEqual(await readFrom(directory, 0), makeRows(1, 60))
})

test('rows at or below the last seq are refused, also when that is in a sealed segment', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  await directory.append(makeRows(1, 5))
  await directory.rotate()
  await assert.rejects(directory.append([makeRow(5)]), { problem: 'bad-row' })
  await assert.rejects(directory.append([]), { problem: 'bad-block' })
  await directory.append([makeRow(6)])
  assert.deepEqual(await readFrom(directory, 0), makeRows(1, 6))
})

/** The active file before a rotation and the sealed one after it. */
async function rotated(): Promise<{ active: Uint8Array; sealed: Uint8Array }> {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  await directory.append(makeRows(1, 8))
  const active = await readFile(join(scratch.path, 'seg_0000000000.jss'))
  await directory.rotate()
  return { active, sealed: await readFile(join(scratch.path, 'seg_0000000000.jss')) }
}

test('a stop at any step of a rotation loses nothing and the next start finishes it', async () => {
  const { active, sealed } = await rotated()
  const stops: Record<string, Record<string, Uint8Array>> = {
    'before the footer': { 'seg_0000000000.jss': active },
    'between footer and header': {
      'seg_0000000000.jss': Buffer.concat([active, sealed.subarray(active.length)]),
    },
    'before the next file': { 'seg_0000000000.jss': sealed },
    'inside the next file': { 'seg_0000000000.jss': sealed, 'seg_0000000001.jss.tmp': new Uint8Array(100) },
  }
  for (const [what, files] of Object.entries(stops)) {
    await using scratch = await scratchDirectory()
    for (const [name, bytes] of Object.entries(files)) await writeFile(join(scratch.path, name), bytes)
    await using directory = await openDirectory(scratch.path)
    assert.deepEqual(await readFrom(directory, 0), makeRows(1, 8), what)
    await directory.append(makeRows(9, 10))
    await directory.rotate()
    assert.deepEqual(await readFrom(directory, 0), makeRows(1, 10), what)
    assert.ok(
      (await readdir(scratch.path)).every((name) => name.endsWith('.jss')),
      what,
    )
  }
})

test('a file that is being read outlives the rotation and the close', async () => {
  await using scratch = await scratchDirectory()
  const directory = await openDirectory(scratch.path)
  await directory.append(makeRows(1, 3))
  const location = directory.firstBlockAfter(0)
  assert.ok(location)
  const reading = directory.readBlock(location)
  const sealed = await directory.rotate()
  assert.ok(sealed)
  assert.deepEqual((await reading).rows(), makeRows(1, 3))
  assert.deepEqual((await directory.readBlock(location)).rows(), makeRows(1, 3))

  const bytes = sealed.readBytes()
  const firstChunk = await bytes.next()
  const closed = directory.close()
  assert.equal((await bytes.next()).done, true)
  assert.equal(firstChunk.value?.length, sealed.fileBytes)
  await closed
  await assert.rejects(sealed.readBlock(0), { problem: 'closed' })
})

test('a rewritten file does not disturb who reads the one before', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  await directory.append(makeRows(1, 3))
  const sealed = await directory.rotate()
  assert.ok(sealed)
  const path = join(scratch.path, sealed.name)
  await writeFile(`${path}.tmp`, await sealBlocks([makeRows(2, 3)]))
  await rename(`${path}.tmp`, path)
  assert.deepEqual((await sealed.readBlock(0)).rows(), makeRows(1, 3))
})

test('a file is served in ranges', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  await directory.append([makeRow(1, { payload: crypto.getRandomValues(new Uint8Array(60_000)) })])
  for (let seq = 2; seq < 8; seq++) {
    await directory.append([makeRow(seq, { payload: crypto.getRandomValues(new Uint8Array(60_000)) })])
  }
  const sealed = await directory.rotate()
  assert.ok(sealed)
  const whole = await readFile(join(scratch.path, sealed.name))
  assert.ok(whole.length > 256 * 1024)
  for (const [start, end] of [
    [0, whole.length],
    [5, 6],
    [10, 300_000],
    [7, 7],
  ] as const) {
    const chunks: Uint8Array[] = []
    for await (const chunk of sealed.readBytes(start, end)) chunks.push(chunk)
    assert.deepEqual(Buffer.concat(chunks), whole.subarray(start, end))
  }
  const frame = await sealed.readFrame(2)
  const { offset, compressedSize } = sealed.blocks[2] ?? assert.fail('no third block')
  assert.deepEqual(Buffer.from(frame), whole.subarray(offset + 8, offset + 8 + compressedSize))
})

test('a plan over the directory names only sealed segments', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await openDirectory(scratch.path)
  await directory.append(makeRows(1, 3))
  await directory.rotate()
  await directory.append(makeRows(4, 6))
  const [segment] = directory.sealed
  assert.equal(await segment?.readDidFilter(), await segment?.readDidFilter(), 'read and checked once')
  assert.equal(await segment?.readBlockDidFilters(), await segment?.readBlockDidFilters())
  const plan = await planSnapshot(directory.sealed, { dids: [makeRow(2).did] })
  assert.deepEqual([plan.sealedTipSeq, plan.plannedThroughSeq, plan.segments.length], [3, 3, 1])
  assert.equal((await planSnapshot(directory.sealed, { dids: ['did:plc:nobody'] })).segments.length, 0)
})

test('segments that overlap, or an active one before a sealed one, are refused', async () => {
  const write = async (directory: string, files: Uint8Array[]): Promise<void> => {
    for (const [i, bytes] of files.entries()) await writeFile(join(directory, `seg_000000000${i}.jss`), bytes)
  }
  const sealed = await sealBlocks([makeRows(1, 5)])
  const later = await sealBlocks([makeRows(6, 9)])
  const active = later.slice(0, new DataView(later.buffer).getUint32(58, true))
  active.fill(0, 4, 256)
  const refused = [
    [sealed, sealed],
    [later, sealed],
    [active, sealed],
    [active, active],
    [later, active],
  ]
  for (const files of refused) {
    await using scratch = await scratchDirectory()
    await write(scratch.path, files)
    await assert.rejects(openDirectory(scratch.path), { problem: 'bad-order' })
  }
  await using scratch = await scratchDirectory()
  await write(scratch.path, [sealed, active])
  await using directory = await openDirectory(scratch.path)
  assert.equal(directory.lastSeq, 9)
})

test('a damaged sealed file is refused with its name', async () => {
  await using scratch = await scratchDirectory()
  const bytes = await sealBlocks([makeRows(1, 5)])
  bytes[60] = 1
  await writeFile(join(scratch.path, 'seg_0000000000.jss'), bytes)
  await assert.rejects(openDirectory(scratch.path), /seg_0000000000\.jss: /)
})
