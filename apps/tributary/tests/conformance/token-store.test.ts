/** Cases 56 to 59 of the feed specification: the clock of tokens, and how many are remembered. */
import assert from 'node:assert/strict'
import { type Answer, type Case, getFeedSkeleton } from './case.ts'
import { startConformance } from './conformance.ts'
import type { Signed } from './directory.ts'
import { bearer, isRefused, issuer, second, token } from './tokens.ts'

const conformance = startConformance()
const perIssuer = 512
const inAll = 4096

function spend(k: Case, by: Signed, claims: object = {}): Promise<Answer> {
  return k.call(getFeedSkeleton, k.body({ viewerDid: undefined }), bearer(token(by, claims)))
}

/** Stores so many tokens of an issuer as spent: what each call does on its way there is in other cases. */
function fill(k: Case, by: Signed, count: number): Promise<void> {
  return k.world.fillTokens(by.did, count, (second + 101) * 1000)
}

conformance(
  56,
  'a token that runs out while its document is loaded is refused, and not stored',
  async (k) => {
    const v = issuer(k)
    k.world.directory.onRequest = () => (k.world.clock.nowMs += 2000)
    isRefused(await spend(k, v, { exp: second + 1, jti: '56' }), 'JwtExpired')
    k.world.directory.onRequest = () => undefined
    assert.equal((await spend(k, v, { jti: '56' })).status, 200)
  },
)

conformance(57, 'an issuer has 512 live tokens, and the others are served', async (k) => {
  const v = issuer(k)
  await fill(k, v, perIssuer - 2)
  for (let n = 0; n < 2; n++) assert.equal((await spend(k, v)).status, 200)
  const { status, error } = await spend(k, v)
  assert.deepEqual([status, error], [503, 'InternalError'])
  assert.equal((await spend(k, issuer(k, k.B))).status, 200)
})

conformance(58, 'all issuers together have 4096 live tokens', async (k) => {
  const first = issuer(k)
  const jti = 'the first'
  assert.equal((await spend(k, first, { jti })).status, 200)
  // 514 of the cases before, and this one.
  let left = inAll - perIssuer - 3 - 2
  for (let n = 0; left > 0; n++) {
    const count = Math.min(left, perIssuer)
    await fill(k, issuer(k, k.did(`n${'abcdefgh'[n]}`)), count)
    left -= count
  }
  const last = issuer(k, k.did('last'))
  for (let n = 0; n < 2; n++) assert.equal((await spend(k, last)).status, 200)
  assert.equal((await spend(k, issuer(k, k.B))).status, 503)
  isRefused(await spend(k, first, { jti }), 'NonceNotUnique')
  assert.equal((await k.ask(getFeedSkeleton)).status, 200)
})

conformance(
  59,
  'after expiry there is room again, and a clock that goes back brings no token back',
  async (k) => {
    k.world.clock.nowMs = (second + 200) * 1000
    const later = { iat: second + 200, exp: second + 260 }
    assert.equal((await spend(k, issuer(k), later)).status, 200)
    k.world.clock.nowMs = second * 1000
    isRefused(await spend(k, issuer(k), { jti: 'an old one', exp: second + 100 }), 'JwtExpired')
  },
)
