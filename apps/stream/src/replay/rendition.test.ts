import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDictionaryEncoder, eventDictionary } from '@tributary/zstd-dictionary'
import { frameMessage } from '@tributary/fanout'
import { LiveRun } from './live-run.ts'
import { MemoryTail } from './memory-tail.ts'
import { renderError } from './render.ts'
import { compressedRendition, jetstreamRendition, ownRendition, renderedAs } from './rendition.ts'

function liveRun(count: number): LiveRun {
  const row = { witnessedAt: 1, indexedAt: 0, kind: 3 as const, collection: 'app.a.b', rkey: 'k', rev: 'r' }
  return new LiveRun(
    Array.from({ length: count }, (_, i) => ({
      row: { ...row, seq: i + 1, did: 'did:plc:a', payload: new Uint8Array(0) },
    })),
  )
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
  for (let reader = 0; reader < 5; reader++) {
    const live = renderedAs(run, own)
    for (let i = 0; i < run.count; i += 2) live.frameAt(i)
    tail.read(0, () => true, 1 << 20, own)
    tail.read(4, () => true, 1 << 20, own)
  }
  assert.equal(encoded, 10)
  tail.read(0, () => true, 1 << 20, compressedRendition(jetstreamRendition, counting))
  assert.equal(encoded, 20)
  // Those who do not want it cost nothing.
  tail.read(0, () => true, 1 << 20, ownRendition)
  assert.equal(encoded, 20)
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
