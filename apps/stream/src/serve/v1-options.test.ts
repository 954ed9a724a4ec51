import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CloseReason } from '@tributary/fanout'
import fc from 'fast-check'
import { readJson } from './json-pieces.ts'
import { readOptionsUpdate } from './v1-options.ts'
import type { V1Filter } from './v1-params.ts'
import { checkFilter, names, wish } from './v1-wishes.ts'

function update(text: string | Buffer): V1Filter | undefined {
  const pieces = readOptionsUpdate(Buffer.from(text))
  for (;;) {
    const piece = pieces.next()
    if (piece.done) return piece.value
  }
}

/** What a text means, read at once by the parser of the language. */
function plainUpdate(text: string): object | string | undefined {
  let message: unknown
  try {
    message = JSON.parse(text)
  } catch {
    return '1007'
  }
  if (!isObject(message)) return '1007'
  if (message['type'] !== 'options_update') return undefined
  const payload = message['payload'] ?? {}
  if (!isObject(payload)) return '1008'
  const size = payload['maxMessageSizeBytes']
  const lists = [payload['wantedCollections'] ?? [], payload['wantedDids'] ?? []]
  if (!lists.every((list) => Array.isArray(list) && list.every((each) => typeof each === 'string')))
    return '1008'
  const [collections, dids] = lists.map((list) => [...new Set(list)])
  const isSize = typeof size === 'number' && Number.isInteger(size) && size > 0 && size < 2 ** 32
  return { collections, dids, maxMessageSizeBytes: isSize ? size : 0 }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const value = fc.oneof(wish, fc.array(wish, { maxLength: 5 }), fc.jsonValue(), fc.integer())
const payload = fc.oneof(fc.dictionary(fc.constantFrom(...names, '__proto__', 'more'), value), value)
const message = fc.record({ type: fc.constantFrom('options_update', 'hello', 5, null), payload })
const text = fc.oneof(
  message.map((each) => JSON.stringify(each)),
  message.map((each) => JSON.stringify(each, undefined, 2)),
  fc.jsonValue().map((each) => JSON.stringify(each)),
  fc.string(),
)

test('any text gives a checked filter or none, or ends its reader with 1007 or 1008', () => {
  fc.assert(
    fc.property(text, (each) => {
      try {
        const filter = update(each)
        if (filter) checkFilter(filter)
      } catch (error) {
        assert.ok(error instanceof CloseReason && [1007, 1008].includes(error.code), String(error))
      }
    }),
  )
})

test('a text means what the parser of the language reads in it, with any fault in it too', () => {
  const goodList = (values: readonly string[]) => fc.array(fc.constantFrom(...values), { maxLength: 4 })
  const good = fc.record(
    {
      wantedCollections: fc.oneof(goodList(['a.b.c', 'é.*', '"\\\n.*']), fc.constant(null)),
      wantedDids: goodList(['did:plc:a', 'did:web:b.c']),
      maxMessageSizeBytes: fc.oneof(fc.nat(), fc.double(), fc.constant('5')),
      more: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  const goodText = fc
    .tuple(good, fc.nat(3))
    .map(([payload, indent]) => JSON.stringify({ payload, type: 'options_update' }, undefined, indent))
  const fault = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    cut: fc.nat(3),
    put: fc.string({ maxLength: 2 }),
  })
  const broken = fc.tuple(fc.oneof(goodText, text), fc.option(fault)).map(([whole, change]) => {
    const at = Math.floor(whole.length * (change?.at ?? 0))
    return change ? `${whole.slice(0, at)}${change.put}${whole.slice(at + change.cut)}` : whole
  })
  const ofAnyPayload = payload.map((each) => JSON.stringify({ type: 'options_update', payload: each }))
  const escaped = goodText.map((whole) =>
    whole.replaceAll(/[a-z](?=[^"]*"[:,\]])/g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`),
  )
  const seen = new Set<string>()
  fc.assert(
    fc.property(fc.oneof(broken, goodText, escaped, ofAnyPayload, text), (each) => {
      // A socket hands over well-formed text only.
      const sent = each.toWellFormed()
      const expected = plainUpdate(sent)
      seen.add(typeof expected === 'string' ? expected : typeof expected)
      try {
        const filter = update(sent)
        const { kinds: _, ...rest } = filter ?? {}
        assert.deepEqual(filter && rest, expected)
      } catch (error) {
        if (!(error instanceof CloseReason)) throw error
        // A filter that is read may name what is no DID and no NSID.
        if (typeof expected === 'string') assert.equal(String(error.code), expected)
        else assert.match(error.message, /^wanted(?:Dids must be DIDs|Collections must be NSIDs)/)
      }
    }),
    { numRuns: 2000 },
  )
  assert.deepEqual([...seen].toSorted(), ['1007', '1008', 'object', 'undefined'])
})

test('JSON that is wrong in one place is refused, and what looks wrong and is not is read', () => {
  const wrong = [
    '',
    '[',
    ']',
    '[}',
    '{]',
    '[,]',
    '[1,]',
    '{,}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{"a" 1}',
    '[1 2]',
  ]
  const wrongTokens = [
    'nul',
    'truee',
    'tru',
    '01',
    '-',
    '1.',
    '.5',
    '1e',
    '+1',
    '1-',
    '"',
    '"\\',
    '"\\x"',
    '"\\u00g0"',
  ]
  const wrongCharacters = ['"\t"', '1 1', '{} {}', "'a'", '\u00a01', '\ufeff1', '"\\u123', '-a', '00', '12a']
  const right = [
    '[]',
    ' {} ',
    '[[],{}]',
    '-0',
    '0',
    '10',
    '1.5E+3',
    '1e-2',
    '"\\u00E9\\"\\/"',
    '\r\n\t null',
    'true',
    '[false]',
  ]
  const read = (json: string): void => void Array.from(readJson(Buffer.from(json), { key() {}, value() {} }))
  for (const json of [...wrong, ...wrongTokens, ...wrongCharacters]) {
    assert.throws(() => JSON.parse(json), SyntaxError, json)
    assert.throws(() => read(json), SyntaxError, json)
  }
  for (const json of right) {
    JSON.parse(json)
    read(json)
  }
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  read(nested(10_000))
  assert.throws(() => read(nested(10_001)), SyntaxError)
})

test('of fields that are there twice the last one counts', () => {
  const [dids, collections] = ['{"wantedDids":["did:plc:a"]}', '{"wantedCollections":["a.b.c"]}']
  const begin = '{"type":"hello","type":"options_update"'
  const filter = update(`${begin},"payload":${dids},"payload":${collections}}`)
  assert.deepEqual([filter?.dids, filter?.collections], [[], ['a.b.c']])
  assert.deepEqual(update(`${begin},"payload":${dids},"payload":null}`)?.dids, [])
  const lists = '{"wantedDids":5,"wantedDids":["did:plc:a"],"wantedDids":["did:plc:b"]}'
  assert.deepEqual(update(`${begin},"payload":${lists}}`)?.dids, ['did:plc:b'])
})

test('ten megabytes of any kind are read in hundreds of pieces', () => {
  const kinds: [string, number][] = [
    ['{},', 10_000_000],
    ['0,', 10_000_000],
    ['[[[]]],', 10_000_000],
    ['"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa",', 10_000_000],
  ]
  for (const [part, bytes] of kinds) {
    const list = `${part.repeat(Math.floor((bytes - 100) / part.length))}"did:plc:a"`
    const pieces = readOptionsUpdate(Buffer.from(`{"type":"hello","payload":{"wantedDids":[${list}]}}`))
    let count = 1
    while (!pieces.next().done) count++
    assert.ok(count > 500, `${part} ${count}`)
  }
})

test('a filter is taken up to its bounds and not beyond', () => {
  const most = (wantedCollections: string[], wantedDids: string[]): V1Filter | undefined =>
    update(JSON.stringify({ type: 'options_update', payload: { wantedCollections, wantedDids } }))
  const dids = Array.from({ length: 10_001 }, (_, i) => `did:plc:${i}`)
  const patterns = Array.from({ length: 101 }, (_, i) => `a.b${i}.*`)
  const taken = most([...patterns.slice(1), ...patterns.slice(1)], [...dids.slice(1), ...dids.slice(1)])
  assert.deepEqual([taken?.collections?.length, taken?.dids.length], [100, 10_000])
  assert.throws(() => most(patterns, []), { code: 1008 })
  assert.throws(() => most([], dids), { code: 1008 })
  assert.throws(() => most([`${'a'.repeat(318)}.*`], []), { code: 1008 })
  const often = Array.from({ length: 10_001 }, () => 'a.b.c')
  assert.deepEqual(most(often.slice(1), [])?.collections, ['a.b.c'])
  assert.throws(() => most(often, []), { code: 1008 })
})
