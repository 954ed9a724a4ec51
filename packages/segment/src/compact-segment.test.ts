import assert from 'node:assert/strict'
import { readdir, readFile, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeWithSecondDecoder } from '@tributary/testkit/second-jss-decoder'
import fc from 'fast-check'
import { anyRows, makeRow, makeRows, witnessedAtMs } from '../tests/rows.ts'
import { scratchDirectory } from '../tests/scratch.ts'
import { auditSegment } from './audit-segment.ts'
import type { Compactor } from './compact-segment.ts'
import { hashDid } from './did-filter.ts'
import { isDamage } from './errors.ts'
import { planSnapshot } from './plan-snapshot.ts'
import { verifySegments } from './repair-segments.ts'
import { isMaterialisingKind } from './row.ts'
import { SegmentDirectory } from './segment-directory.ts'
import { systemDisk } from './segment-disk.ts'

const open = (directory: string): Promise<SegmentDirectory> =>
  SegmentDirectory.open({ directory, segmentAgeMsMax: Infinity, now: () => witnessedAtMs })

/** Drops rows by their seq. */
function dropping(drops: (seq: number) => boolean): Compactor {
  return { mayHold: () => true, isDropped: (block, i) => drops(block.seqAt(i)) }
}

test('blocks that lose no row keep their frames, those that lose all stay empty, and envelopes stay', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await open(scratch.path)
  for (let at = 1; at <= 30; at += 10) await directory.append(makeRows(at, at + 9))
  const before = await directory.rotate()
  assert.ok(before)
  const frames = await Promise.all([0, 1, 2].map((i) => before.readFrame(i)))
  const reading = before.readBytes()
  const { value: firstChunk } = await reading.next()
  const outcome = await directory.compact(
    0,
    dropping((seq) => seq > 20 || seq === 5),
  )
  // Whoever began to read the old file gets all of it.
  let bytes = firstChunk?.length ?? 0
  for await (const chunk of reading) bytes += chunk.length
  assert.equal(bytes, before.fileBytes)
  assert.equal(outcome.rowsDropped, 11)
  const after = directory.findSealed(0)
  assert.ok(after)
  assert.notEqual(after.header.checksum, before.header.checksum)
  assert.deepEqual(await after.readFrame(1), frames[1])
  assert.notDeepEqual(await after.readFrame(0), frames[0])
  const envelope = ({ minSeq, maxSeq, minWitnessedAt, maxWitnessedAt }: typeof after.header) => [
    minSeq,
    maxSeq,
    minWitnessedAt,
    maxWitnessedAt,
  ]
  assert.deepEqual(envelope(after.header), envelope(before.header))
  assert.deepEqual(
    after.blocks.map(({ eventCount, minSeq, maxSeq }) => [eventCount, minSeq, maxSeq]),
    [
      [9, 1, 10],
      [10, 11, 20],
      [0, 21, 30],
    ],
  )
  assert.equal(after.blocks[2]?.uncompressedSize, 4)
  assert.deepEqual(await auditSegment(after), [])
  // The filters are those of the rows that are left.
  const filters = await after.readBlockDidFilters()
  const ofDropped = hashDid(makeRow(5).did)
  assert.deepEqual([filters.at(0).has(ofDropped), filters.at(1).has(ofDropped)], [false, true])
  assert.equal((await before.readBlock(2)).count, 10)
  // What is appended next goes on after the rows that are gone.
  assert.equal(directory.lastSeq, 30)
  await assert.rejects(directory.append(makeRows(30, 30)), { problem: 'bad-row' })
  await directory.append(makeRows(31, 40))
  assert.equal(directory.firstBlockAfter(20)?.entry.minSeq, 31)
  const plan = await planSnapshot(directory.sealed, {})
  assert.deepEqual([plan.plannedThroughSeq, plan.segments[0]?.checksum], [30, after.header.checksum])
})

test('what takes the place of a segment is dated a second later at least, whatever the clock says', async () => {
  await using scratch = await scratchDirectory()
  {
    await using directory = await open(scratch.path)
    await directory.append(makeRows(1, 10))
    await directory.rotate()
  }
  const newer = new Date(Date.now() + 3_600_700)
  await utimes(join(scratch.path, 'seg_0000000000.jss'), newer, newer)
  await using directory = await open(scratch.path)
  const secondOf = (): number => Math.floor((directory.findSealed(0)?.modifiedAtMs ?? 0) / 1000)
  const before = secondOf()
  await directory.compact(
    0,
    dropping((seq) => seq === 5),
  )
  assert.equal(secondOf(), before + 1)
})

test('a segment of which nothing goes is left as it is, and so is one that ends damaged or half written', async () => {
  await using scratch = await scratchDirectory()
  await using directory = await open(scratch.path)
  await directory.append(makeRows(1, 10))
  await directory.rotate()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const before = await readFile(path)
  assert.deepEqual(
    await directory.compact(
      0,
      dropping(() => false),
    ),
    { rowsDropped: 0, bytesFreed: 0 },
  )
  const never: Compactor = { mayHold: () => false, isDropped: () => assert.fail() }
  assert.equal((await directory.compact(0, never)).rowsDropped, 0)
  let paced = 0
  const stopped: Compactor = {
    ...dropping(() => true),
    pace: async () => {
      if (++paced === 2) throw new Error('the stream stops')
    },
  }
  await assert.rejects(directory.compact(0, stopped), /the stream stops/)
  assert.deepEqual(await readFile(path), before)
  assert.deepEqual((await readdir(scratch.path)).toSorted(), ['seg_0000000000.jss', 'seg_0000000001.jss'])
  await assert.rejects(directory.compact(1, never), { problem: 'no-such-block' })
})

test('rows that a compaction took out are not taken for lost', async () => {
  await using scratch = await scratchDirectory()
  {
    await using directory = await open(scratch.path)
    await directory.append(makeRows(1, 10))
    await directory.rotate()
    await directory.compact(
      0,
      dropping((seq) => seq > 5),
    )
  }
  let lastSeq = 0
  for await (const report of verifySegments(scratch.path, 10)) {
    assert.deepEqual(report.damage, [])
    lastSeq = Math.max(lastSeq, report.lastSeq)
  }
  assert.equal(lastSeq, 10)
})

test('whatever goes, what stays is what was there without it, over a start, and passes the audit and a second decoder', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyRows, { minLength: 1, maxLength: 4 }),
      fc.uniqueArray(fc.integer({ min: 1, max: 160 })),
      async (groups, dropped) => {
        const isDropped = (each: number): boolean => dropped.includes(each)
        await using scratch = await scratchDirectory()
        let seq = 0
        const blocks = groups.map((rows) => rows.map((row) => ({ ...row, seq: ++seq })))
        const kept = blocks
          .flat()
          .filter((row) => !isMaterialisingKind(row.kind) || !isDropped(row.seq))
          .map((row) => row.seq)
        {
          await using directory = await open(scratch.path)
          for (const rows of blocks) await directory.append(rows)
          await directory.rotate()
          await directory.compact(0, dropping(isDropped))
        }
        for await (const { damage } of verifySegments(scratch.path, seq)) assert.deepEqual(damage, [])
        const { blocks: decoded } = await decodeWithSecondDecoder(
          await readFile(join(scratch.path, 'seg_0000000000.jss')),
        )
        assert.deepEqual(
          decoded.flatMap(({ events }) => events.map((row) => row.seq)),
          kept,
        )
        await using again = await SegmentDirectory.open({ directory: scratch.path, lastSeqMin: seq })
        const seen: number[] = []
        for (let at = again.firstBlockAfter(0); at; at = again.firstBlockAfter(at.entry.maxSeq)) {
          const block = await again.readBlock(at)
          seen.push(...block.rows().map((row) => row.seq))
        }
        assert.deepEqual([seen, again.lastSeq], [kept, seq])
      },
    ),
    // A failure is made smaller for so long.
    { numRuns: 50, interruptAfterTimeLimit: 20_000 },
  )
})

test('a new file that cannot be written is no damage of the segment', async () => {
  await using scratch = await scratchDirectory()
  let failing = ''
  const fail = async (): Promise<never> => {
    throw Object.assign(new Error('i/o error'), { code: 'EIO' })
  }
  await using directory = await SegmentDirectory.open({
    directory: scratch.path,
    segmentAgeMsMax: Infinity,
    now: () => witnessedAtMs,
    disk: {
      ...systemDisk,
      rename: (from, to) => (failing === 'rename' ? fail() : systemDisk.rename(from, to)),
      open: async (path, flags) => {
        const file = await systemDisk.open(path, flags)
        return path.endsWith('.tmp') && failing in file ? Object.assign(file, { [failing]: fail }) : file
      },
    },
  })
  await directory.append(makeRows(1, 10))
  await directory.rotate()
  for (failing of ['write', 'sync', 'rename']) {
    const error: unknown = await directory
      .compact(
        0,
        dropping((seq) => seq === 5),
      )
      .catch((each: unknown) => each)
    assert.ok(error instanceof Error && !isDamage(error), failing)
  }
})
