import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { decodeBlock, encodeBlockBody, type Row } from '@tributary/segment'
import fc from 'fast-check'
import { StreamError } from './errors.ts'
import { NdjsonWriter } from './ndjson.ts'
import { payloadBytesOf, plainEvent, rowEvent } from './row-event.ts'

const sha256 = (bytes: Uint8Array): Uint8Array => hash('sha256', bytes, 'buffer')
const odd = fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => text.isWellFormed())
const signs = (text: string, lengths: { minLength: number; maxLength: number }) =>
  fc.string({ unit: fc.constantFrom(...Array.from(text)), ...lengths })
const plc = signs('abcxyz234567AZ019_-', { minLength: 1, maxLength: 30 }).map((tail) => `did:plc:${tail}`)
const web = signs('ab.-:%A0_', { minLength: 1, maxLength: 20 }).map((tail) => `did:web:${tail}`)
const micros = fc.integer({ min: -(2 ** 51), max: 2 ** 52 })
const kinds = [1, 2, 3, 7] as const

const row: fc.Arbitrary<Omit<Row, 'seq'>> = fc.record({
  witnessedAt: micros,
  indexedAt: fc.oneof(fc.constant(0), micros),
  kind: fc.constantFrom(...kinds),
  collection: fc.oneof(
    fc.constantFrom('org.impact.badge', 'org.impact.bedge', 'org.impact.claim', 'app.bsky.feed.like'),
    signs('ab.0-', { minLength: 0, maxLength: 12 }),
    odd,
  ),
  did: fc.oneof(plc, web, fc.constantFrom('did:plc:', 'did:plc', 'did:plc:a:', 'did:plc:a%'), odd),
  rkey: fc.oneof(signs('azAZ09_~.:-', { minLength: 0, maxLength: 15 }), odd),
  rev: fc.oneof(signs('234567abcxyz', { minLength: 13, maxLength: 13 }), odd),
  payload: fc.oneof(
    fc
      .dictionary(odd, fc.oneof(odd, fc.maxSafeInteger()), { noNullPrototype: true })
      .map((record) => encode(record)),
    fc.uint8Array({ maxLength: 5 }),
  ),
})
const ascendingRows = fc
  .array(fc.tuple(fc.integer({ min: 1, max: 2 ** 40 }), row), { minLength: 1, maxLength: 8 })
  .map((pairs): Row[] => {
    let seq = 0
    return pairs.map(([step, columns]) => ({ ...columns, seq: (seq += step) }))
  })

/** The line, or undefined for an event that is malformed. */
function stringified(event: ReturnType<typeof rowEvent>): string | undefined {
  try {
    return `${JSON.stringify(event)}\n`
  } catch (error) {
    assert.ok(error instanceof StreamError && error.code === 'MalformedEvent')
    return undefined
  }
}

test('a record that is bytes or a link is malformed, as an object and as a line', () => {
  const columns = {
    witnessedAt: 0,
    indexedAt: 0,
    did: 'did:plc:a',
    collection: 'org.impact.badge',
    rkey: 'a',
    rev: '',
  }
  const link = [0xd8, 42, 0x58, 37, 0, 1, 0x71, 0x12, 32, ...new Uint8Array(32)]
  for (const payload of [[0x44, 0, 0, 0, 0], link].map((bytes) => Uint8Array.from(bytes)))
    for (const kind of [1, 5] as const) {
      const block = decodeBlock(encodeBlockBody([{ ...columns, kind, payload, seq: 1 }]))
      const event = rowEvent(block, 0, 1, sha256)
      assert.equal(stringified(event), undefined)
      assert.equal(new NdjsonWriter().lines([event]).malformed.length, 1)
    }
})

test('a view keeps no record of the objects that were made of it', () => {
  const columns = {
    witnessedAt: 0,
    indexedAt: 0,
    did: 'did:plc:a',
    collection: 'org.impact.badge',
    rkey: 'a',
    rev: '',
  }
  const payload = encode({ items: [1, 2] })
  const event = rowEvent(
    decodeBlock(encodeBlockBody([{ ...columns, kind: 1, payload, seq: 1 }])),
    0,
    1,
    sha256,
  )
  assert.equal(payloadBytesOf(event), payload.length)
  const [one, other] = [plainEvent(event), plainEvent(event)]
  assert.ok(one.kind === 'commit' && other.kind === 'commit')
  assert.deepEqual(one.record, { items: [1, 2] })
  assert.notEqual(one.record, other.record)
  assert.equal(payloadBytesOf(one), 0)
})

test('the line of a row is what stringifying its event gives, for texts and times of any form', () => {
  const writer = new NdjsonWriter()
  let whole = 0
  fc.assert(
    fc.property(ascendingRows, (rows) => {
      const block = decodeBlock(encodeBlockBody(rows))
      const events = rows.map(({ seq }, i) => rowEvent(block, i, seq, sha256))
      const { bytes, malformed } = writer.lines(events)
      const lines = events.map((event) => stringified(event)).filter((line) => line !== undefined)
      assert.equal(Buffer.from(bytes).toString(), lines.join(''))
      assert.equal(malformed.length, events.length - lines.length)
      whole += lines.length
    }),
    { numRuns: 500 },
  )
  assert.ok(whole > 50, `only ${whole} rows were not malformed`)
})

test('collections that are alike are not taken for one another', () => {
  const columns = { witnessedAt: 1, indexedAt: 0, kind: 3, did: 'did:plc:a', rkey: 'a', rev: 'a' } as const
  const rows = Array.from({ length: 4000 }, (_, i): Row => ({
    ...columns,
    seq: i + 1,
    collection: `org.impact.c${String(i).padStart(4, '0')}`,
    payload: new Uint8Array(0),
  }))
  const block = decodeBlock(encodeBlockBody(rows))
  const { bytes } = new NdjsonWriter().lines(rows.map(({ seq }, i) => rowEvent(block, i, seq, sha256)))
  const written = [
    ...Buffer.from(bytes)
      .toString()
      .matchAll(/"collection":"(.*?)"/g),
  ]
  assert.deepEqual(
    written.map(([, collection]) => collection),
    rows.map(({ collection }) => collection),
  )
})
