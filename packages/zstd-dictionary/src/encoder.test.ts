import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { createDictionaryEncoder, dictionaryId, eventDictionary } from './index.ts'

const dictionary = eventDictionary()
const window = 128 * 1024
const codecMemory = 16 * 1024 * 1024

/** What a frame says of itself: RFC 8878, 3.1.1.1. */
function headerOf(frame: Uint8Array): { dictionary: number; window: number; contentBytes: number } {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  assert.equal(view.getUint32(0, true), 0xfd2fb528)
  const descriptor = view.getUint8(4)
  const isOnePiece = (descriptor & 0x20) !== 0
  assert.equal(descriptor & 3, 3, 'an id of four bytes')
  const sizeBytes = [isOnePiece ? 1 : 0, 2, 4, 8][descriptor >> 6]
  const at = isOnePiece ? 5 : 6
  const bits = isOnePiece ? 0 : view.getUint8(5)
  const sizeAt = at + 4
  const contentBytes =
    sizeBytes === 1
      ? view.getUint8(sizeAt)
      : sizeBytes === 2
        ? view.getUint16(sizeAt, true) + 256
        : view.getUint32(sizeAt, true)
  const windowBase = 2 ** (10 + (bits >> 3))
  return {
    dictionary: view.getUint32(at, true),
    window: isOnePiece ? contentBytes : windowBase + (windowBase / 8) * (bits & 7),
    contentBytes,
  }
}

/** A message of about that size, with text that hardly repeats. */
function message(bytes: number): Buffer {
  let text = '{"$type":"message","payload":{"$type":"network.social.stream.subscribeEvents#commit","text":"'
  for (let i = 1; text.length < bytes; i++) text += Math.imul(i, 0x9e3779b1).toString(36)
  return Buffer.from(text).subarray(0, bytes)
}

test('every size comes back through another decoder, from a frame that names the dictionary and its window', async () => {
  const encoder = await createDictionaryEncoder(dictionary.bytes)
  assert.equal(encoder.dictionaryId, dictionary.id)
  for (const bytes of [
    0,
    1,
    2,
    255,
    256,
    257,
    600,
    65_791,
    65_792,
    window - 1,
    window,
    window + 1,
    500_000,
    3_000_000,
  ]) {
    const content = message(bytes)
    const frame = encoder.encode(content)
    assert.deepEqual(zstdDecompressSync(frame, { dictionary: dictionary.bytes }), content, `${bytes} bytes`)
    const header = headerOf(frame)
    assert.equal(header.dictionary, dictionary.id)
    assert.equal(header.contentBytes, bytes)
    assert.ok(header.window <= window, `a window of ${header.window} for ${bytes} bytes`)
  }
})

test('a message of an event takes under 40 % of its bytes', async () => {
  const encoder = await createDictionaryEncoder(dictionary.bytes)
  const content = Buffer.from(
    '{"$type":"message","payload":{"$type":"network.social.stream.subscribeEvents#commit","seq":71,"did":"did:plc:ewvi7nxzyoun6zhxrhs64oiz","time":"2026-03-04T05:06:07.123456Z","rev":"3mssnmbnjqj2c","operation":"create","collection":"org.impact.claim.activity","rkey":"3mssnmapoi22e","cid":"bafyreif4xycz3cb4qktjgdvx4fgfnbjgr3jqlhmbzc72g2o5ynffpzxt64","record":{"$type":"org.impact.claim.activity","title":"Spring planting","createdAt":"2026-03-04T05:06:07.000Z","shortDescription":"Two hundred oaks on the north plot."}}}',
  )
  const { length } = encoder.encode(content)
  assert.ok(length < 0.4 * content.length, `${length} bytes of ${content.length}`)
})

test('a message of any length is one frame', async () => {
  const { encode } = await createDictionaryEncoder(dictionary.bytes)
  // Node fills buffers of 16 kB when it is not told otherwise. Noise grows by some bytes.
  const noise = randomBytes(9 * 16 * 1024)
  const magic = encode(noise).subarray(0, 4)
  for (let size = noise.length - 60; size < noise.length; size++) {
    const frame = Buffer.from(encode(noise.subarray(0, size)))
    assert.equal(frame.lastIndexOf(magic), 0, `${size} bytes`)
  }
})

test('a frame does not decode with another dictionary, or with none', async () => {
  const { encode } = await createDictionaryEncoder(dictionary.bytes)
  const frame = encode(message(600))
  const other = Buffer.from(dictionary.bytes)
  other.writeUInt32LE(dictionary.id + 1, 4)
  assert.throws(() => zstdDecompressSync(frame))
  assert.throws(() => zstdDecompressSync(frame, { dictionary: other }))
})

test('two encoders with different dictionaries do not disturb one another', async () => {
  const other = Buffer.from(dictionary.bytes)
  other.writeUInt32LE(77, 4)
  const [one, two] = [await createDictionaryEncoder(dictionary.bytes), await createDictionaryEncoder(other)]
  for (let bytes = 10; bytes < 3000; bytes += 100) {
    const content = message(bytes)
    assert.deepEqual(zstdDecompressSync(one.encode(content), { dictionary: dictionary.bytes }), content)
    assert.deepEqual(zstdDecompressSync(two.encode(content), { dictionary: other }), content)
  }
})

test('a frame stays as it is while others are made', async () => {
  const { encode } = await createDictionaryEncoder(dictionary.bytes)
  const contents = Array.from({ length: 200 }, (_, i) => message(100 + 20 * i))
  const frames = contents.map((content) => encode(content))
  const decoded = frames.map((frame) => zstdDecompressSync(frame, { dictionary: dictionary.bytes }))
  assert.deepEqual(decoded, contents)
})

test('what is no dictionary with an id is refused', async () => {
  for (const bytes of [
    new Uint8Array(0),
    dictionary.bytes.subarray(0, 8),
    Buffer.from('text that is long enough'),
  ])
    await assert.rejects(createDictionaryEncoder(bytes), RangeError)
  await assert.rejects(createDictionaryEncoder(dictionary.bytes.subarray(0, 100)), RangeError)
})

test('many times its memory passes through the codec, and then it gives the same frame', async () => {
  const { encode } = await createDictionaryEncoder(dictionary.bytes)
  const content = message(100_000)
  const first = encode(content)
  assert.notDeepEqual(Buffer.from(first), zstdCompressSync(content, { dictionary: dictionary.bytes }))
  for (let bytes = 0; bytes < 4 * codecMemory; bytes += content.length) encode(content)
  assert.deepEqual(encode(content), first)
})

test('messages are compressed when the memory of the codec is used up', async () => {
  const { encode } = await createDictionaryEncoder(dictionary.bytes)
  const content = message(100_000)
  const first = encode(content)
  // The codec itself prints OOM.
  await assert.rejects(async () => {
    for (;;) await createDictionaryEncoder(dictionary.bytes)
  })
  const frame = encode(content)
  assert.deepEqual(zstdDecompressSync(frame, { dictionary: dictionary.bytes }), content)
  assert.notDeepEqual(frame, first)
})

test('the dictionary has an id of its own', () => {
  assert.equal(dictionaryId(dictionary.bytes), dictionary.id)
  assert.ok(
    ![20260811, 1612007021].includes(dictionary.id),
    'the dictionaries of Jetstream have other contents',
  )
  // Ids outside are kept for a public list (RFC 8878, 5).
  assert.ok(dictionary.id >= 2 ** 15 && dictionary.id < 2 ** 31)
})
