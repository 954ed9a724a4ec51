/** What of the files of segments is left by a power cut, by readers that are slow, and by an end. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { cutPowerBeforeEachSync, fileMethods } from '../tests/power.ts'
import { makeRows, sealBlocks } from '../tests/rows.ts'
import { scratchDirectory } from '../tests/scratch.ts'
import { ActiveSegment } from './active-segment.ts'
import { BlockView } from './block-view.ts'
import { FilterCache } from './filter-cache.ts'
import { SealedSegment } from './sealed-segment.ts'
import { SegmentDirectory } from './segment-directory.ts'
import { segmentName } from './segment-name.ts'

type Read = (bytes: Uint8Array, offset: number, length: number, position: number) => Promise<unknown>

/** Files give a few bytes at a time, as the system may. */
async function giveLittleAtATime(t: TestContext): Promise<void> {
  const methods = (await fileMethods()) as { read: Read } // as Node has them
  const { read } = methods
  t.mock.method(
    methods,
    'read',
    function (this: unknown, ...[bytes, offset, length, position]: Parameters<Read>) {
      return read.call(this, bytes, offset, Math.min(length, 50), position)
    },
  )
}

test('a power cut at any moment leaves every block that was listed, and a directory that opens', async (t) => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'segments')
  const open: SegmentDirectory[] = []
  let cuts = 0
  await cutPowerBeforeEachSync(t, path, async (left) => {
    const listed = open[0]?.lastSeq ?? 0
    await using reopened = await SegmentDirectory.open({ directory: left })
    assert.ok(reopened.lastSeq >= listed, `${reopened.lastSeq} of ${listed}`)
    cuts++
  })
  const directory = await SegmentDirectory.open({ directory: path })
  open.push(directory)
  for (const seq of [1, 5, 9]) {
    await directory.append(makeRows(seq, seq + 1))
    await directory.append(makeRows(seq + 2, seq + 3))
    await directory.rotate()
  }
  await directory.close()
  assert.ok(cuts > 30, `${cuts}`)
})

test('blocks and filters are read whole though a file gives a few bytes at a time, and is closed meanwhile', async (t) => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, segmentName(0))
  const rows = makeRows(1, 30)
  await writeFile(path, await sealBlocks([rows]))
  await giveLittleAtATime(t)
  for (const read of ['readBlock', 'readDidFilter', 'readBlockDidFilters', 'readFrame'] as const) {
    const segment = await SealedSegment.open(path)
    const reading = segment[read](0)
    const closed = segment.close()
    const found = await reading
    if (found instanceof BlockView) assert.deepEqual(found.rows(), rows)
    await closed
  }
})

test('a seq that two files or two blocks hold is noticed at a start', async () => {
  await using scratch = await scratchDirectory()
  const [first, second] = [0, 1].map((index) => join(scratch.path, segmentName(index)))
  assert.ok(first && second)
  const refused = async (): Promise<void> =>
    assert.rejects(SegmentDirectory.open({ directory: scratch.path }), { problem: 'bad-order' })
  await writeFile(first, await sealBlocks([makeRows(1, 3)]))
  await writeFile(second, await sealBlocks([makeRows(3, 5)]))
  await refused()
  await rm(second)
  const active = await ActiveSegment.create(second)
  await active.appendBlock(makeRows(3, 5))
  await active.close()
  await refused()
  await rm(first)
  const block = (await readFile(second)).subarray(256)
  const other = await ActiveSegment.create(first)
  await other.appendBlock(makeRows(5, 6))
  await other.close()
  const next = (await readFile(first)).subarray(256)
  await writeFile(first, Buffer.concat([(await readFile(second)).subarray(0, 256), block, next]))
  await rm(second)
  await refused()
})

test('what an unfinished write left is removed, and a rotation that was cut short is finished', async () => {
  await using scratch = await scratchDirectory()
  await writeFile(join(scratch.path, `${segmentName(7)}.tmp`), 'torn')
  await using directory = await SegmentDirectory.open({ directory: scratch.path })
  assert.deepEqual(await readdir(scratch.path), [segmentName(0)])
  await directory.append(makeRows(1, 3))
  const inTheWay = join(scratch.path, segmentName(1))
  await writeFile(inTheWay, '')
  await assert.rejects(directory.rotate(), { problem: 'bad-name' })
  await rm(inTheWay)
  await directory.append(makeRows(4, 5))
  assert.deepEqual(
    directory.sealed.map(({ header }) => header.maxSeq),
    [3],
  )
  assert.equal(directory.lastSeq, 5)
})

test('a directory that is closed has no file open', { skip: !existsSync('/proc/self/fd') }, async () => {
  await using scratch = await scratchDirectory()
  const openFiles = (): string[] =>
    readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        const path = readlinkSync(`/proc/self/fd/${fd}`)
        return path.startsWith(scratch.path) ? [path] : []
      } catch {
        return [] // it was closed meanwhile
      }
    })
  const directory = await SegmentDirectory.open({ directory: scratch.path })
  await directory.append(makeRows(1, 3))
  await directory.rotate()
  assert.ok(openFiles().length > 0)
  await directory.close()
  assert.deepEqual(openFiles(), [])
})

test('a filter that is read while its file is closed takes no room for good', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, segmentName(0))
  await writeFile(path, await sealBlocks([makeRows(1, 30)]))
  const bytes = 10_000
  const cache = new FilterCache(bytes)
  const segment = await SealedSegment.open(path, cache)
  const reading = segment.readDidFilter()
  await segment.close()
  await reading
  let loads = 0
  const key = {}
  for (let i = 0; i < 2; i++) await cache.get(key, { bytes, rank: 'first' }, async () => loads++)
  assert.equal(loads, 1)
})
