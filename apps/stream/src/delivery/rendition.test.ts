import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDictionaryEncoder, eventDictionary } from '@tributary/zstd-dictionary'
import { frameMessage } from '@tributary/fanout'
import { decodeBlock, encodeBlockBody, type Row } from '@tributary/segment'
import { BlockCache, BlockRun } from './block-cache.ts'
import { LiveRun } from './live-run.ts'
import { MemoryTail } from './memory-tail.ts'
import { renderError } from './render.ts'
import {
  compressedRendition,
  jetstreamRendition,
  ownRendition,
  renderedAs,
  type Rendition,
} from './rendition.ts'
import { v1Rendition } from './v1-rendition.ts'

function rowAt(i: number): Row {
  const row = { witnessedAt: 1, indexedAt: 0, kind: 3 as const, collection: 'app.a.b', rkey: 'k', rev: 'r' }
  return { ...row, seq: i + 1, did: 'did:plc:a', payload: new Uint8Array(0) }
}

function liveRun(count: number): LiveRun {
  return new LiveRun(Array.from({ length: count }, (_, i) => ({ row: rowAt(i) })))
}

test('a message is compressed once for each rendition, however many read it and from wherever', async () => {
  const encoder = await createDictionaryEncoder(eventDictionary().bytes)
  let encoded = 0
  const counting = {
    ...encoder,
    encode: (content: Uint8Array) => {
      encoded++
      return encoder.encode(content)
    },
  }
  const own = compressedRendition(ownRendition, counting)
  const run = liveRun(10)
  const tail = new MemoryTail(1 << 20, 0)
  tail.push(run)
  // A read ends after some time, whatever it has found.
  const readAll = (afterSeq: number, rendition: Rendition): void => {
    for (let at = afterSeq; at < tail.headSeq;)
      at = tail.read(at, () => true, 1 << 20, rendition)?.lastSeq ?? assert.fail()
  }
  for (let reader = 0; reader < 5; reader++) {
    const live = renderedAs(run, own)
    for (let i = 0; i < run.count; i += 2) live.frameAt(i)
    readAll(0, own)
    readAll(4, own)
  }
  assert.equal(encoded, 10)
  readAll(0, compressedRendition(jetstreamRendition, counting))
  assert.equal(encoded, 20)
  // Those who do not want it cost nothing.
  readAll(0, ownRendition)
  assert.equal(encoded, 20)
})

test('what other renditions keep counts for the bound of memory, live and of blocks', async () => {
  const [tail, blocks] = [new MemoryTail(0, 0), new BlockCache(0)]
  const run = liveRun(100)
  tail.push(run)
  const own = tail.bytes
  const rows = Array.from({ length: 100 }, (_, i) => rowAt(i))
  const block = decodeBlock(encodeBlockBody(rows))
  const load = async (): Promise<BlockRun> => new BlockRun(block, 100, assert.fail)
  const cached = await blocks.get('first', load)
  const decoded = blocks.bytes
  for (let i = 0; i < 100; i++) cached.frameAt(i)
  for (const rendition of [jetstreamRendition, v1Rendition]) {
    const before = tail.bytes + blocks.bytes
    const [live, replayed] = [renderedAs(run, rendition), renderedAs(cached, rendition)]
    let bytes = 0
    for (let again = 0; again < 2; again++)
      for (let i = 0; i < 100; i++) bytes += live.frameAt(i).length + replayed.frameAt(i).length
    const grown = tail.bytes + blocks.bytes - before
    assert.ok(grown >= bytes / 2 && grown < bytes)
  }
  // They go with their run, and what is made after that is nobody's any more.
  tail.coveredByBlocks(100)
  await blocks.get('second', load)
  assert.deepEqual([tail.bytes, blocks.bytes, own > 0], [0, decoded, true])
  renderedAs(
    run,
    compressedRendition(ownRendition, await createDictionaryEncoder(eventDictionary().bytes)),
  ).frameAt(0)
  assert.equal(tail.bytes, 0)
})

test('the size of a message is that before it is compressed, in each rendition', async () => {
  const encoder = await createDictionaryEncoder(eventDictionary().bytes)
  const run = liveRun(1)
  for (const plain of [ownRendition, jetstreamRendition]) {
    const frame = plain.frame(run.frameAt(0))
    const size = frame.subarray((frame[1] ?? 0) < 126 ? 2 : 4).length
    assert.equal(renderedAs(run, plain).messageBytesAt(0), size)
    assert.equal(renderedAs(run, compressedRendition(plain, encoder)).messageBytesAt(0), size)
  }
})

test('an error is the same under every name, and a row that cannot be shown stays empty', () => {
  const error = frameMessage('text', Buffer.from(renderError('ConsumerTooSlow', 'x'.repeat(200))))
  for (const rendition of [ownRendition, jetstreamRendition]) {
    assert.deepEqual(rendition.frame(error), error)
    assert.equal(rendition.frame(new Uint8Array(0)).length, 0)
    assert.equal(rendition.messageBytes(new Uint8Array(0)), 0)
  }
})
