import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { CloseReason } from '@tributary/fanout'
import { XrpcError } from '@tributary/xrpc'
import fc from 'fast-check'
import { readOptionsUpdate, readV1Query, type V1Filter } from './v1-params.ts'

/** Values that mean something in some place, and those that mean nothing anywhere. */
const wish = fc.oneof(
  fc.constantFrom(
    'did:plc:a',
    'app.a.b',
    'app.*',
    '.*',
    '',
    'did:',
    'a.b',
    'true',
    '-1',
    '7',
    '1e9',
    '9'.repeat(30),
  ),
  fc.string({ unit: 'binary', maxLength: 400 }),
)
const names = ['wantedCollections', 'wantedDids', 'maxMessageSizeBytes', 'cursor', 'compress', 'requireHello']

function checkFilter({ kinds, collections, dids, maxMessageSizeBytes }: V1Filter): void {
  assert.deepEqual(kinds, ['commit', 'identity', 'account'])
  assert.ok(collections?.every((pattern) => pattern.length <= 319 && /\../.test(pattern)))
  assert.ok(dids.every((did) => /^did:[a-z]+:./.test(did)))
  assert.ok(
    Number.isInteger(maxMessageSizeBytes) && maxMessageSizeBytes >= 0 && maxMessageSizeBytes < 2 ** 32,
  )
}

test('any query gives a checked filter and a cursor, or a refusal with 400', () => {
  const query = fc.array(fc.tuple(fc.constantFrom(...names), wish), { maxLength: 8 })
  fc.assert(
    fc.property(query, (pairs) => {
      const search = new URLSearchParams()
      for (const [name, value] of pairs) search.append(name, value.toWellFormed())
      const request = { url: `/subscribe?${search.toString()}`, headers: {} } as unknown as IncomingMessage // all that is read
      try {
        const { filter, cursor } = readV1Query(request)
        checkFilter(filter)
        assert.ok(cursor === undefined || (Number.isInteger(cursor) && cursor >= 0))
      } catch (error) {
        assert.ok(error instanceof XrpcError && error.status === 400, String(error))
      }
    }),
  )
})

test('any text gives a checked filter or none, or ends its reader with 1007 or 1008', () => {
  const value = fc.oneof(wish, fc.array(wish, { maxLength: 5 }), fc.jsonValue(), fc.integer())
  const payload = fc.oneof(fc.dictionary(fc.constantFrom(...names, '__proto__', 'more'), value), value)
  const message = fc.record({ type: fc.constantFrom('options_update', 'hello', 5, null), payload })
  const text = fc.oneof(
    message.map((each) => JSON.stringify(each)),
    fc.jsonValue().map((each) => JSON.stringify(each)),
    fc.string(),
  )
  fc.assert(
    fc.property(text, (each) => {
      try {
        const filter = readOptionsUpdate(each)
        if (filter) checkFilter(filter)
      } catch (error) {
        assert.ok(error instanceof CloseReason && [1007, 1008].includes(error.code), String(error))
      }
    }),
  )
})

test('a filter is taken up to its bounds and not beyond', () => {
  const update = (wantedCollections: string[], wantedDids: string[]): V1Filter | undefined =>
    readOptionsUpdate(JSON.stringify({ type: 'options_update', payload: { wantedCollections, wantedDids } }))
  const dids = Array.from({ length: 10_001 }, (_, i) => `did:plc:${i}`)
  const patterns = Array.from({ length: 101 }, (_, i) => `a.b${i}.*`)
  const most = update([...patterns.slice(1), ...patterns.slice(1)], [...dids.slice(1), ...dids.slice(1)])
  assert.deepEqual([most?.collections?.length, most?.dids.length], [100, 10_000])
  assert.throws(() => update(patterns, []), { code: 1008 })
  assert.throws(() => update([], dids), { code: 1008 })
  assert.throws(() => update([`${'a'.repeat(318)}.*`], []), { code: 1008 })
})
