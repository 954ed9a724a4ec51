import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lexicons, type LexXrpcParameters, ValidationError } from '@atproto/lexicon'
import fc from 'fast-check'
import { decodeParams, validated } from './params.ts'
import { XrpcError } from './xrpc-error.ts'

const parameters: LexXrpcParameters = {
  type: 'params',
  required: ['did'],
  properties: {
    did: { type: 'string', format: 'did' },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 50 },
    deep: { type: 'boolean' },
    kinds: { type: 'array', maxLength: 2, items: { type: 'string', enum: ['commit', 'sync'] } },
    seqs: { type: 'array', items: { type: 'integer' } },
  },
}
const lexicons = new Lexicons([{ lexicon: 1, id: 'a.b.call', defs: { main: { type: 'query', parameters } } }])
const decode = (query: string): unknown => decodeParams(lexicons, 'a.b.call', parameters, query)

function refused(query: string, message: RegExp): void {
  assert.throws(() => decode(query), { name: 'XrpcError', status: 400, error: 'InvalidRequest', message })
}

test('text becomes what the lexicon says, defaults are filled in, unknown names are ignored', () => {
  assert.deepEqual(decode('did=did:web:a.example&deep=true&other=1&limit=7'), {
    did: 'did:web:a.example',
    deep: true,
    limit: 7,
  })
  assert.deepEqual(decode('did=did%3Aweb%3Aa.example&deep=false'), {
    did: 'did:web:a.example',
    deep: false,
    limit: 50,
  })
})

test('repeated names are an array, and one value where an array is expected is an array of one', () => {
  assert.deepEqual(decode('did=did:web:a.example&kinds=commit&kinds=sync&seqs=-5'), {
    did: 'did:web:a.example',
    limit: 50,
    kinds: ['commit', 'sync'],
    seqs: [-5],
  })
})

test('what does not fit is refused, and the message names the parameter', () => {
  refused('', /"did"/)
  refused('did=nobody', /did/)
  for (const bad of ['', '1.0', '1e1', '+1', '0x1', ' 1', '9007199254740992', '99999999999999999999']) {
    refused(`did=did:web:a.example&limit=${encodeURIComponent(bad)}`, /limit must be an integer/)
  }
  refused('did=did:web:a.example&limit=0', /limit/)
  refused('did=did:web:a.example&limit=1&limit=2', /limit may be given only once/)
  for (const bad of ['1', 'TRUE', ''])
    refused(`did=did:web:a.example&deep=${bad}`, /deep must be true or false/)
  refused('did=did:web:a.example&kinds=commit&kinds=sync&kinds=sync', /kinds/)
  refused('did=did:web:a.example&kinds=other', /kinds/)
})

test('any query string is read or refused, nothing else', () => {
  const piece = fc.oneof(
    fc.string(),
    fc.constantFrom('did', 'limit', 'kinds', 'did:web:a.example', '__proto__', '%'),
  )
  const query = fc
    .array(fc.tuple(piece, piece).map(([name, value]) => `${name}=${value}`))
    .map((all) => all.join('&'))
  fc.assert(
    fc.property(query, (text) => {
      try {
        decode(text)
      } catch (error) {
        assert.ok(error instanceof XrpcError && error.status === 400)
      }
    }),
  )
})

test('a validation takes no stacks, and errors after it have theirs', () => {
  const framesMax = Error.stackTraceLimit
  assert.ok(framesMax > 0)
  assert.equal(
    validated(() => Error.stackTraceLimit),
    0,
  )
  const fault = new TypeError('ours')
  const failing = (error: Error) => (): never => {
    throw error
  }
  assert.throws(() => validated(failing(fault)), fault)
  assert.throws(() => validated(failing(new ValidationError('cursor is wrong'))), { status: 400 })
  assert.equal(Error.stackTraceLimit, framesMax)
})
