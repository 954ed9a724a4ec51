import assert from 'node:assert/strict'
import { test } from 'node:test'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import * as fc from 'fast-check'
import { eventDictionary } from '../event-dictionary.ts'
import { createDictionaryEncoder } from '../encoder.ts'
import { createDictionaryDecoder, decompressFrame, DictionaryFrameError } from './decoder.ts'

const { id, bytes: dictionary } = eventDictionary()
const { decode } = createDictionaryDecoder(dictionary)
const bytesMax = 10_000_000

/** Contents that need every part of the format: words of the dictionary, repeats, noise, one byte, many blocks. */
const contents = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '{"$type":"message","payload":{"$type":"network.social.stream.subscribeEvents#commit","seq":',
        '"org.impact.claim.activity","createdAt":"2026-03-04T05:06:07.000Z"',
        'the river and the forest ',
      ),
      fc.string({ maxLength: 300 }),
      fc
        .tuple(fc.constantFrom('a', 'ab', '{"x":1},'), fc.integer({ min: 1, max: 60_000 }))
        .map(([text, times]) => text.repeat(times)),
      fc.uint8Array({ maxLength: 2000 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    ),
    { maxLength: 12 },
  )
  .map((parts) => Buffer.from(parts.join('')))

test('what Node compresses with a dictionary comes back, at every level, with and without a checksum or a size', () => {
  fc.assert(
    fc.property(
      contents,
      fc.constantFrom(-5, 1, 3, 9, 16),
      fc.boolean(),
      fc.boolean(),
      (content, level, hasChecksum, hasSize) => {
        const params = {
          [constants.ZSTD_c_compressionLevel]: level,
          [constants.ZSTD_c_checksumFlag]: Number(hasChecksum),
          [constants.ZSTD_c_contentSizeFlag]: Number(hasSize),
        }
        const frame = zstdCompressSync(content, { dictionary, params })
        assert.ok(content.equals(decode(frame, bytesMax)))
      },
    ),
    { numRuns: 200 },
  )
})

test('what Node compresses without a dictionary comes back, and nothing that has more than it may', () => {
  fc.assert(
    fc.property(contents, fc.constantFrom(-5, 1, 3, 16), fc.boolean(), (content, level, hasSize) => {
      const params = {
        [constants.ZSTD_c_compressionLevel]: level,
        [constants.ZSTD_c_checksumFlag]: 1,
        [constants.ZSTD_c_contentSizeFlag]: Number(hasSize),
      }
      const frame = zstdCompressSync(content, { params })
      assert.ok(content.equals(decompressFrame(frame, bytesMax)))
      if (content.length > 0)
        assert.throws(() => decompressFrame(frame, content.length - 1), DictionaryFrameError)
    }),
  )
})

test('what our encoder makes comes back', async () => {
  const { encode } = await createDictionaryEncoder(dictionary)
  fc.assert(fc.property(contents, (content) => assert.ok(content.equals(decode(encode(content), bytesMax)))))
})

test('changed frames end with an error or with some content within the bound, and never otherwise', () => {
  const change = fc.record({ at: fc.nat(), value: fc.integer({ min: 0, max: 255 }) })
  fc.assert(
    fc.property(
      contents,
      fc.array(change, { minLength: 1, maxLength: 4 }),
      fc.option(fc.nat()),
      (content, changes, cut) => {
        const frame = Buffer.from(zstdCompressSync(content, { dictionary }))
        for (const { at, value } of changes) frame[at % frame.length] = value
        const shown = cut === null ? frame : frame.subarray(0, cut % frame.length)
        try {
          assert.ok(decode(shown, 1_000_000).length <= 1_000_000)
        } catch (error) {
          assert.ok(error instanceof DictionaryFrameError, String(error))
        }
      },
    ),
    { numRuns: 500 },
  )
})

test('any bytes for a dictionary are refused or used, and never end otherwise', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ at: fc.nat({ max: 400 }), value: fc.integer({ min: 0, max: 255 }) }), {
        minLength: 1,
      }),
      (changes) => {
        const changed = Buffer.from(dictionary)
        for (const { at, value } of changes) changed[8 + at] = value
        try {
          const other = createDictionaryDecoder(changed)
          other.decode(zstdCompressSync('x'.repeat(100), { dictionary }), 1000)
        } catch (error) {
          assert.ok(error instanceof DictionaryFrameError, String(error))
        }
      },
    ),
  )
})

/** A frame of this dictionary, with blocks as they are given. */
function frameOf(contentBytes: bigint, ...blocks: Uint8Array[]): Buffer {
  const head = Buffer.alloc(18)
  head.writeUInt32LE(0xfd2fb528)
  head[4] = 0b1100_0011
  head[5] = 0x38
  head.writeUInt32LE(id, 6)
  head.writeBigUInt64LE(contentBytes, 10)
  return Buffer.concat([head, ...blocks])
}

function block(type: number, size: number, isLast: boolean, ...content: number[]): Uint8Array {
  const head = size * 8 + type * 2 + Number(isLast)
  return Uint8Array.of(head & 255, (head >> 8) & 255, head >> 16, ...content)
}

test('a frame that claims more than it may have, or than its blocks can have, is refused before anything is allocated', () => {
  const one = block(0, 1, true, 65)
  assert.deepEqual(decode(frameOf(1n, one), 1), new Uint8Array([65]))
  const before = process.memoryUsage().arrayBuffers
  for (const [claim, most, pattern] of [
    [2n, 1, /more than 1 bytes/],
    [4_000_000_000n, bytesMax, /more than/],
    [2n ** 63n, bytesMax, /more than/],
    [2n ** 64n - 1n, Infinity, /than its blocks/],
    [2n, bytesMax, /than its blocks/],
  ] as const)
    assert.throws(() => decode(frameOf(claim, one), most), pattern)
  assert.ok(process.memoryUsage().arrayBuffers - before < 1_000_000)
  // Forty bytes that become a megabyte, where less is allowed.
  const bomb = frameOf(0n, ...Array.from({ length: 8 }, (_, i) => block(1, 131_072, i === 7, 65)))
  assert.throws(() => decode(bomb, 1_000_000), DictionaryFrameError)
  bomb.writeBigUInt64LE(1_048_576n, 10)
  assert.throws(() => decode(bomb, 1_048_575), /more than/)
  assert.equal(decode(bomb, 1_048_576).length, 1_048_576)
})

test('a match that reaches before the dictionary is refused', () => {
  let tablesEnd = 8
  for (; ; tablesEnd++) {
    try {
      createDictionaryDecoder(dictionary.subarray(0, tablesEnd))
      break
    } catch {
      // Up to the tables' end and the largest distance that they begin with, it is cut short.
    }
  }
  const content = Buffer.concat([dictionary.subarray(tablesEnd, tablesEnd + 200), Buffer.from(' and more')])
  const frame = zstdCompressSync(content, { dictionary, params: { [constants.ZSTD_c_compressionLevel]: 19 } })
  assert.ok(content.equals(decode(frame, bytesMax)))
  const shorter = Buffer.concat([dictionary.subarray(0, tablesEnd), dictionary.subarray(-2000)])
  assert.throws(() => createDictionaryDecoder(shorter).decode(frame, bytesMax), /before the dictionary/)
})

test('only a whole frame of this dictionary is one', () => {
  const frame = zstdCompressSync('some text', { dictionary })
  for (const wrong of [
    new Uint8Array(0),
    frame.subarray(0, -1),
    Buffer.concat([frame, Buffer.from([0])]),
    Buffer.concat([frame, frame]),
    zstdCompressSync('some text'),
    Buffer.from('{"$type":"message"}'),
  ])
    assert.throws(() => decode(wrong, bytesMax), DictionaryFrameError)
  const other = Buffer.from(dictionary)
  other.writeUInt32LE(id + 1, 4)
  assert.throws(() => createDictionaryDecoder(other).decode(frame, bytesMax), /needs dictionary/)
  assert.throws(() => createDictionaryDecoder(dictionary.subarray(0, 60)), DictionaryFrameError)
  assert.throws(() => createDictionaryDecoder(Buffer.from('no dictionary')), RangeError)
})

test('a frame of many blocks with the window of a dictionary frame decodes as another decoder has it', () => {
  const content = Buffer.from(
    Array.from({ length: 60_000 }, (_, i) => `${Math.imul(i, 0x9e3779b1)} `).join(''),
  )
  const frame = zstdCompressSync(content, { dictionary, params: { [constants.ZSTD_c_windowLog]: 17 } })
  assert.deepEqual(Buffer.from(decode(frame, bytesMax)), zstdDecompressSync(frame, { dictionary }))
})
