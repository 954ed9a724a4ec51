import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode, encode, toBytes } from '@atcute/cbor'
import { CidLinkWrapper, fromDigest } from '@atcute/cid'
import fc from 'fast-check'
import {
  ByteWriter,
  limits,
  recordCborToJson,
  recordCborToValue,
  RecordError,
  writeRecordJson,
} from './index.ts'

function jsonBytes(bytes: Uint8Array): string {
  const out = new ByteWriter(1)
  writeRecordJson(bytes, out)
  return new TextDecoder().decode(out.written)
}

const link = new CidLinkWrapper(fromDigest(0x71, new Uint8Array(32).fill(7)).bytes)
const leaf = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.maxSafeInteger(),
  fc.boolean(),
  fc.constant(null),
  fc.uint8Array({ maxLength: 40 }).map(toBytes),
  fc.constant(link),
)
const value = fc.letrec((tie) => ({
  node: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('node'), { maxLength: 5 }),
    fc.dictionary(fc.string({ maxLength: 30 }), tie('node'), { maxKeys: 6, noNullPrototype: true }),
  ),
})).node

test('the direct transcription equals decoding and stringifying', () => {
  fc.assert(
    fc.property(value, (input) => {
      const bytes = encode(input)
      const json = recordCborToJson(bytes)
      assert.deepEqual(JSON.parse(json), JSON.parse(JSON.stringify(decode(bytes))))
      assert.deepEqual(recordCborToValue(bytes), JSON.parse(json))
      assert.equal(jsonBytes(bytes), json)
    }),
  )
})

test('digits are those of the number, with zeros before them where they are too few', () => {
  const number = fc.oneof(
    fc.nat(),
    fc.maxSafeNat(),
    fc.constantFrom(0, 9, 10, 2 ** 31 - 1, 2 ** 31, 2 ** 53 - 1),
  )
  fc.assert(
    fc.property(number, fc.integer({ min: 1, max: 8 }), (value, width) => {
      const out = new ByteWriter(1)
      out.digits(value, width)
      assert.equal(new TextDecoder().decode(out.written), String(value).padStart(width, '0'))
    }),
  )
})

test('base32 is that of CIDs, for any bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      const out = new ByteWriter(1)
      out.bytes(Uint8Array.of(98))
      out.base32(bytes)
      assert.equal(new TextDecoder().decode(out.written), new CidLinkWrapper(bytes).$link)
    }),
  )
})

/** What a reading gives, or the message of its RecordError. */
function attempt(read: () => unknown): unknown {
  try {
    return { value: read() }
  } catch (error) {
    assert.ok(error instanceof RecordError, String(error))
    return error.message
  }
}

test('a key that objects inherit by is a key like others', () => {
  const bytes = Uint8Array.of(0xa1, 0x69, ...new TextEncoder().encode('__proto__'), 0x80)
  const value = recordCborToValue(bytes)
  assert.deepEqual(value, JSON.parse(recordCborToJson(bytes)))
  assert.deepEqual(Object.getPrototypeOf(value), Object.prototype)
})

test('random bytes give JSON or a RecordError, nothing else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const readings = [recordCborToJson, jsonBytes].map((read) => attempt(() => JSON.parse(read(bytes))))
      for (const reading of [...readings, attempt(() => recordCborToValue(bytes))]) {
        assert.deepEqual(reading, readings[0], 'all three take and refuse the same')
      }
    }),
    { numRuns: 2000 },
  )
})

test('what DAG-CBOR forbids is refused', () => {
  const cases: [string, number[]][] = [
    ['a number in a longer form', [0x18, 1]],
    ['an indefinite list', [0x9f, 0xff]],
    ['keys out of order', [0xa2, 0x61, 0x62, 0, 0x61, 0x61, 0]],
    ['a key twice', [0xa2, 0x61, 0x61, 0, 0x61, 0x61, 0]],
    ['bytes behind the value', [0x00, 0x00]],
    ['another tag', [0xc1, 0x00]],
    ['33 levels', [...Array<number>(33).fill(0x81), 0]],
    ['a list longer than the input', [0x9b, 0, 0, 0, 1, 0, 0, 0, 0]],
  ]
  for (const [name, bytes] of cases) {
    for (const read of [recordCborToJson, recordCborToValue, jsonBytes])
      assert.throws(() => read(Uint8Array.from(bytes)), RecordError, `${read.name}: ${name}`)
  }
})

/** A map of a list of empty byte strings, which take 14 bytes of JSON for each of theirs, and of a text that fills it up. */
function recordOf(values: number, recordBytes: number): Uint8Array {
  const uint32 = (n: number): number[] => [(n >>> 24) & 255, (n >>> 16) & 255, (n >>> 8) & 255, n & 255]
  const list = [0xa2, 0x61, 0x61, 0x99, ...uint32(values).slice(2)]
  const textBytes = recordBytes - list.length - values - 7
  const text = [0x61, 0x62, 0x7a, ...uint32(textBytes)]
  return Buffer.concat([
    Uint8Array.from(list),
    Buffer.alloc(values, 0x40),
    Uint8Array.from(text),
    Buffer.alloc(textBytes, 1),
  ])
}

test('a record has so many values at most that its JSON fits the largest message that clients take', () => {
  const most = recordOf(limits.recordValues - 3, limits.recordBytes)
  assert.equal(most.length, limits.recordBytes)
  assert.ok(recordCborToJson(most).length < 8_000_000)
  assert.equal(jsonBytes(most), recordCborToJson(most))
  const more = recordOf(limits.recordValues - 2, limits.recordBytes)
  for (const read of [recordCborToJson, recordCborToValue, jsonBytes])
    assert.throws(() => read(more), RecordError)
})
