/** Tokens of accounts of a case. */
import assert from 'node:assert/strict'
import { type Answer, type Case, getFeedSkeleton } from './case.ts'
import { Signed } from './directory.ts'
import { noon } from './made.ts'
import { serviceDid } from './world.ts'

/** The feed's clock in seconds, when the services start. */
export const second = Date.parse(noon) / 1000
let count = 0

/** An account, V by default, with a key in its document. */
export function issuer(k: Case, did = k.V): Signed {
  const account = new Signed(did)
  k.world.directory.publish(account)
  return account
}

/** A good token for the skeleton, with other claims or header fields. An undefined one is left out. */
export function token(by: Signed, claims: object = {}, header: object = {}): string {
  const all = {
    iss: by.did,
    aud: serviceDid,
    iat: second,
    exp: second + 60,
    lxm: getFeedSkeleton,
    jti: `token-${count++}`,
    ...claims,
  }
  const signed = `${base64url({ typ: 'JWT', alg: 'ES256K', ...header })}.${base64url(all)}`
  return `${signed}.${Buffer.from(by.signer.signNow(Buffer.from(signed))).toString('base64url')}`
}

export function bearer(text: string): Record<string, string> {
  return { authorization: `Bearer ${text}` }
}

/** Refused for one of these reasons. */
export function isRefused({ status, error, headers }: Answer, ...faults: string[]): void {
  assert.deepEqual([status, error], [401, 'AuthenticationRequired'])
  const told = headers.get('www-authenticate') ?? ''
  assert.ok(
    faults.some((fault) => told === `Bearer error="${fault}"`),
    told,
  )
}

function base64url(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
