import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { decodeBlock, encodeBlockBody } from '@tributary/segment'
import { newRow } from '../../tests/rows.ts'
import { BlockCache, BlockRun } from './block-cache.ts'
import { collect, type FrameRun } from './frame-run.ts'
import { jetstreamRendition, renderedAs } from './rendition.ts'

function blockOf(seq: number): BlockRun {
  const row = { ...newRow({ n: seq }).draft, seq }
  return new BlockRun(decodeBlock(encodeBlockBody([row])), seq, assert.fail)
}

test('however many readers ask, few blocks are loaded at a time, and each once', async () => {
  const cache = new BlockCache(1 << 20)
  let underWay = 0
  let most = 0
  let loads = 0
  const load = async (seq: number): Promise<BlockRun> => {
    loads++
    most = Math.max(most, ++underWay)
    await setImmediate()
    underWay--
    if (seq === 7 && loads <= 50) throw new Error('the disk failed')
    return blockOf(seq)
  }
  const seqs = Array.from({ length: 50 }, (_, i) => i + 1)
  const ask = (): Promise<PromiseSettledResult<BlockRun>[]> =>
    Promise.allSettled([...seqs, ...seqs].map((seq) => cache.get(String(seq), () => load(seq))))
  const first = await ask()
  assert.deepEqual([loads, first.filter(({ status }) => status === 'rejected').length], [50, 2])
  assert.ok(most <= 4, `${most} at a time`)
  const second = await ask()
  assert.deepEqual([loads, second.filter(({ status }) => status === 'rejected').length], [51, 0])
})

test('what was being read when the cache was cleared is not kept, and is read again for whoever asks later', async () => {
  const cache = new BlockCache(1 << 20)
  const [old, held] = [blockOf(1), Promise.withResolvers<BlockRun>()]
  const early = cache.get('a', () => held.promise)
  cache.clear()
  const [later, fresh] = [Promise.withResolvers<BlockRun>(), blockOf(2)]
  const late = cache.get('a', () => later.promise)
  held.resolve(old)
  assert.equal(await early, old)
  const joined = cache.get('a', assert.fail)
  later.resolve(fresh)
  assert.deepEqual([await late, await joined, await cache.get('a', assert.fail)], [fresh, fresh, fresh])
  assert.equal(cache.bytes, fresh.bytes)
})

test('blocks that were used longest ago go first, and the bound is kept', async () => {
  const size = blockOf(1).bytes
  const cache = new BlockCache(2 * size)
  const loaded: number[] = []
  for (const seq of [1, 2, 1, 3, 1, 2]) {
    await cache.get(String(seq), async () => {
      loaded.push(seq)
      return blockOf(seq)
    })
    assert.ok(cache.bytes <= 2 * size)
  }
  assert.deepEqual(loaded, [1, 2, 3, 2])
})

/** The frames of this block are fifteen times as long as its rows: lists of empty byte strings. */
function costlyBlock(count: number): BlockRun {
  const payload = encode({ a: Array.from({ length: 19_990 }, () => toBytes(new Uint8Array(0))) })
  const rows = Array.from({ length: count }, (_, i) => ({
    ...newRow({ n: i + 1 }).draft,
    seq: i + 1,
    payload,
  }))
  return new BlockRun(decodeBlock(encodeBlockBody(rows)), count, assert.fail)
}

test('a reader looks at the clock after each message that was made, whether it is wanted or not', (t) => {
  const run = costlyBlock(40)
  let nowMs = 0
  t.mock.method(performance, 'now', () => (nowMs += 2))
  const isSmall = (each: FrameRun, i: number): boolean => each.messageBytesAt(i) <= 1000
  const made: number[] = []
  let at = 0
  while (at < 40) {
    const before = run.made
    const found = collect(run, at, isSmall, 1e9)
    assert.ok(found.lastSeq > at && found.frames.length === 0)
    at = found.lastSeq
    made.push(run.made - before)
  }
  assert.deepEqual([made, run.made], [Array.from({ length: 40 }, () => 1), 40])
  // What is there already costs no look at the clock for each.
  assert.equal(collect(run, 0, isSmall, 1e9).lastSeq, 32)
})

test('a reader of another rendition looks at the clock after each message that was made', (t) => {
  const run = costlyBlock(40)
  for (let i = 0; i < 40; i++) run.frameAt(i)
  let nowMs = 0
  t.mock.method(performance, 'now', () => (nowMs += 2))
  assert.equal(collect(renderedAs(run, jetstreamRendition), 0, () => true, 1e9).lastSeq, 1)
})

test('messages count for the bound of the cache when they are made, whatever they take', async () => {
  const [first, second] = [costlyBlock(10), costlyBlock(10)]
  const cache = new BlockCache(first.bytes + second.bytes + 500_000)
  await cache.get('first', async () => first)
  await cache.get('second', async () => second)
  const before = cache.bytes
  const frame = second.frameAt(0)
  assert.ok(cache.bytes >= before + frame.length)
  second.frameAt(1)
  assert.equal(cache.bytes, second.bytes)
  assert.equal(await cache.get('second', assert.fail), second)
  await assert.rejects(
    cache.get('first', () => Promise.reject(new Error('it is read again'))),
    /it is read again/,
  )
})

test('the messages of a block take no more memory than is counted for them', () => {
  const rows = Array.from({ length: 4000 }, (_, i) => ({ ...newRow({ n: i + 1 }).draft, seq: i + 1 }))
  const run = new BlockRun(decodeBlock(encodeBlockBody(rows)), rows.length, assert.fail)
  const before = run.bytes
  const buffers = new Set(rows.map((_, i) => run.frameAt(i).buffer))
  const taken = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0)
  // Short messages share buffers, of which the first and the last one may hold other things.
  assert.ok(taken <= run.bytes - before + 2 * Buffer.poolSize, `${taken} bytes of ${run.bytes - before}`)
})

test('a reader passes the end of a block, where its last rows are gone too, and rows that cannot be shown', (t) => {
  // A turn that takes long ends early, so the clock stands still here.
  t.mock.method(performance, 'now', () => 0)
  const rows = [1, 2, 3].map((seq) => ({ ...newRow({ n: seq }).draft, seq }))
  const bad = { ...newRow({ n: 4 }).draft, seq: 4, payload: Uint8Array.of(0xff) }
  const unreadable: number[] = []
  const run = new BlockRun(decodeBlock(encodeBlockBody([...rows, bad])), 9, (seq) => unreadable.push(seq))
  const everything = (): boolean => true
  const first = collect(run, 0, everything, 1)
  assert.deepEqual([first.frames.length, first.lastSeq], [1, 1])
  const rest = collect(run, first.lastSeq, everything, 1e6)
  assert.deepEqual([rest.frames.length, rest.lastSeq, unreadable], [2, 9, [4]])
  assert.deepEqual(collect(run, 0, (_, i) => i === 1, 1e6).lastSeq, 9)
})
