import assert from 'node:assert/strict'
import { open as openFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeRows, witnessedAtMs } from '../tests/rows.ts'
import { scratchDirectory } from '../tests/scratch.ts'
import { hashDid } from './did-filter.ts'
import { SegmentDirectory } from './segment-directory.ts'

interface Archive {
  directory: string
  knownSegmentsPath: string
}

const open = (archive: Archive): Promise<SegmentDirectory> =>
  SegmentDirectory.open({ ...archive, now: () => witnessedAtMs })

/** An archive with one sealed segment, and where the parts of its footer begin. */
async function sealedArchive(directory: string) {
  const archive = { directory: join(directory, 'segments'), knownSegmentsPath: join(directory, 'known.json') }
  await using segments = await open(archive)
  await segments.append(makeRows(1, 20))
  const sealed = await segments.rotate()
  assert.ok(sealed)
  return { archive, header: sealed.header, path: join(archive.directory, sealed.name) }
}

async function flip(path: string, at: number): Promise<void> {
  const file = await openFile(path, 'r+')
  const byte = Buffer.alloc(1)
  await file.read(byte, 0, 1, at)
  await file.write(Buffer.of(~(byte[0] ?? 0)), 0, 1, at)
  await file.close()
}

test('of a segment that was checked before a start reads the indexes, and its filters when they are asked', async () => {
  await using scratch = await scratchDirectory()
  const { archive, header, path } = await sealedArchive(scratch.path)
  await flip(path, header.didFilterOffset + 40)
  await using again = await open(archive)
  const segment = again.findSealed(0)
  assert.equal(segment?.header.eventCount, 20)
  await assert.rejects(async () => (await segment?.readDidFilter())?.has(hashDid('did:plc:a')), {
    problem: 'bad-filter',
  })
})

test('damage of an index is found at each start, and without a good file of what is known all of the footer is checked', async () => {
  for (const part of ['footerOffset', 'collectionIndexOffset', 'didFilterOffset'] as const) {
    await using scratch = await scratchDirectory()
    const { archive, header, path } = await sealedArchive(scratch.path)
    await flip(path, header[part] + 20)
    if (part === 'didFilterOffset') await writeFile(archive.knownSegmentsPath, '{"seg_0000000000.jss":7')
    await assert.rejects(open(archive), { problem: 'bad-checksum' })
  }
})

test('a segment that was rewritten is known as what it is now', async () => {
  await using scratch = await scratchDirectory()
  const { archive } = await sealedArchive(scratch.path)
  {
    await using segments = await open(archive)
    await segments.compact(0, { mayHold: () => true, isDropped: (_, i) => i < 5 })
  }
  await using again = await open(archive)
  assert.equal(again.findSealed(0)?.header.eventCount, 15)
  const known = JSON.parse(await readFile(archive.knownSegmentsPath, 'utf8')) as Record<
    string,
    { checksum: string }
  >
  assert.equal(known['seg_0000000000.jss']?.checksum, again.findSealed(0)?.header.checksum)
})
