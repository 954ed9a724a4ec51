import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Did } from '@tributary/protocol'
import { TokenRefusedError } from './refusal.ts'
import { readServiceToken } from './service-token.ts'

const expected = {
  serviceDid: 'did:web:feed.example' as Did, // DID syntax
  method: 'org.impact.feed.getFeed',
  maxAgeSeconds: 300,
  nowSeconds: 1_772_625_600,
}
const good = {
  iss: 'did:plc:alice',
  aud: expected.serviceDid,
  exp: expected.nowSeconds + 60,
  iat: expected.nowSeconds,
  lxm: expected.method,
  jti: 'a',
}

test('any header is a token that says the right things, or is refused with a reason', () => {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const field = fc.constantFrom('iss', 'aud', 'exp', 'iat', 'nbf', 'lxm', 'jti', 'alg', 'typ')
  const near = fc.tuple(field, fc.jsonValue()).map(([name, value]) => {
    const header = {
      alg: 'ES256K',
      typ: 'JWT',
      ...(name === 'alg' || name === 'typ' ? { [name]: value } : {}),
    }
    return `Bearer ${part(header)}.${part({ ...good, [name]: value })}.AAAA`
  })
  const parts = fc.array(fc.json().map(part), { maxLength: 4 }).map((list) => `Bearer ${list.join('.')}`)
  fc.assert(
    fc.property(fc.oneof(fc.string(), parts, near), (header) => {
      try {
        const token = readServiceToken(header, expected)
        assert.ok(token.issuer.startsWith('did:') && Number.isInteger(token.expiresAt))
        assert.notEqual(token.alg, 'none')
        assert.ok(Math.abs(token.expiresAt - expected.nowSeconds) <= expected.maxAgeSeconds)
      } catch (error) {
        assert.ok(error instanceof TokenRefusedError)
      }
    }),
    { numRuns: 2000 },
  )
})
