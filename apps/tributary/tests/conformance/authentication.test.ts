/** Cases 30 to 61 of the feed specification: who calls, and how a token is checked and spent. */
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { once } from 'node:events'
import { Signer } from '@tributary/testkit'
import { type Answer, type Case, getFeed, getFeedSkeleton, impactFeedId } from './case.ts'
import { startConformance } from './conformance.ts'
import { Signed } from './directory.ts'
import { bearer, isRefused, issuer, second, token } from './tokens.ts'
import { serviceDid } from './world.ts'

const conformance = startConformance()
/** V with a key in its document, at noon. */
function caller(k: Case, did = k.V): Signed {
  k.world.clock.nowMs = second * 1000
  k.world.directory.onRequest = () => undefined
  return issuer(k, did)
}

function call(k: Case, sent: string, params: object = {}, method = getFeedSkeleton): Promise<Answer> {
  const named = { $type: 'org.impact.feed.defs#impactFeedParams', ...params }
  return k.call(method, { feedId: impactFeedId, params: named }, bearer(sent))
}

async function isServed(k: Case, sent: string, method = getFeedSkeleton): Promise<void> {
  const { status, text } = await call(k, sent, {}, method)
  assert.equal(status, 200, text)
}

conformance(30, 'without a token a viewer must be named', async (k) => {
  assert.equal((await k.ask(getFeed, { viewerDid: undefined })).status, 400)
})

conformance(31, 'a token gives the feed of its issuer, on both methods', async (k) => {
  const v = caller(k)
  k.follow(k.A)
  k.put(k.A, 'activity', 'act')
  for (const lxm of [getFeed, getFeedSkeleton])
    assert.equal((await call(k, token(v, { lxm }), {}, lxm)).feed.length, 1)
})

conformance(32, 'a token and its issuer as the viewer are served', async (k) => {
  assert.equal((await call(k, token(caller(k)), { viewerDid: k.V })).status, 200)
})

conformance(33, 'a token and another viewer are refused, and the token is spent', async (k) => {
  const sent = token(caller(k))
  assert.equal((await call(k, sent, { viewerDid: k.A })).status, 400)
  isRefused(await call(k, sent), 'NonceNotUnique')
})

conformance(35, 'another scheme of authorization is no bearer', async (k) => {
  isRefused(await k.call(getFeedSkeleton, k.body(), { authorization: 'Basic abc' }), 'MissingBearer')
})

conformance(36, 'what is no JWT is refused', async (k) => {
  const [header, payload, signature] = token(caller(k)).split('.')
  isRefused(await call(k, `${header}.${payload}`), 'BadJwt')
  isRefused(await call(k, `e30x.${payload}.${signature}`), 'BadJwt')
})

conformance(37, 'no algorithm, and tokens of sessions, are refused', async (k) => {
  const v = caller(k)
  for (const header of [{ alg: 'none' }, { typ: 'at+jwt' }, { typ: 'refresh+jwt' }, { typ: 'dpop+jwt' }])
    isRefused(await call(k, token(v, {}, header)), 'BadJwt')
})

/** Cases in which only the claims differ. */
const byClaims: readonly [number: number, what: string, claims: readonly object[], fault: string][] = [
  [38, 'another audience is refused', [{ aud: 'did:web:other.example' }], 'InvalidAudience'],
  [39, 'an audience with a fragment is refused', [{ aud: `${serviceDid}#impact_feed` }], 'BadJwt'],
  [41, 'a token that is not valid yet is refused', [{ nbf: second + 60 }], 'JwtNotYetValid'],
  [42, 'a token that lives too long is refused', [{ exp: second + 301 }, { iat: second - 301 }], 'JwtTooOld'],
  [
    48,
    'a nonce that is none is refused',
    [undefined, '', 7, true, {}, 'x'.repeat(257)].map((jti) => ({ jti })),
    'BadJwt',
  ],
]
for (const [number, what, claims, fault] of byClaims) {
  conformance(number, what, async (k) => {
    const v = caller(k)
    for (const each of claims) isRefused(await call(k, token(v, each)), fault)
  })
}

conformance(40, 'a token is good to the end of its last second', async (k) => {
  const v = caller(k)
  isRefused(await call(k, token(v, { exp: second - 1 })), 'JwtExpired')
  await isServed(k, token(v, { exp: second }))
})

conformance(43, 'a token for no method or the other one is refused, and its nonce stays free', async (k) => {
  const v = caller(k)
  for (const lxm of [undefined, getFeed])
    isRefused(await call(k, token(v, { lxm, jti: '43' })), 'BadJwtLexiconMethod')
  await isServed(k, token(v, { jti: '43' }))
})

conformance(44, 'a signature by another key is refused, and the nonce stays free', async (k) => {
  const v = caller(k)
  const forger = new Signed(k.V)
  forger.signer = Signer.fromSeed('forger')
  isRefused(await call(k, token(forger, { jti: '44' })), 'BadJwtSignature')
  await isServed(k, token(v, { jti: '44' }))
})

conformance(46, 'an issuer whose document cannot be loaded is refused', async (k) => {
  const v = caller(k)
  k.world.directory.documents.delete(k.V)
  isRefused(await call(k, token(v)), 'DidResolutionFailed')
})

conformance(47, 'an issuer on a private address is refused, and nothing reaches it', async (k) => {
  let reached = 0
  k.world.directory.onRequest = () => reached++
  for (const did of ['did:web:localhost', 'did:web:10.0.0.1', `did:web:192.168.1.1%3A8080`])
    isRefused(await call(k, token(new Signed(did as never))), 'DidResolutionFailed', 'BadJwt') // not all are DIDs
  assert.equal(reached, 0)
})

conformance(49, 'a nonce of 256 bytes, or of one space, is accepted', async (k) => {
  const v = caller(k)
  for (const jti of ['é'.repeat(128), ' ']) await isServed(k, token(v, { jti }))
})

conformance(50, 'a token that is sent twice is refused the second time', async (k) => {
  const sent = token(caller(k))
  await isServed(k, sent)
  isRefused(await call(k, sent), 'NonceNotUnique')
})

conformance(51, 'of one token sent twice at once one is served', async (k) => {
  const sent = token(caller(k))
  const statuses = await Promise.all([call(k, sent), call(k, sent)])
  assert.deepEqual(
    statuses.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 401],
  )
})

conformance(52, 'one nonce of two issuers is two tokens', async (k) => {
  for (const did of [k.V, k.B]) await isServed(k, token(caller(k, did), { jti: '52' }))
})

conformance(53, 'one nonce on both methods is one token', async (k) => {
  const v = caller(k)
  await isServed(k, token(v, { jti: '53' }))
  isRefused(await call(k, token(v, { jti: '53', lxm: getFeed }), {}, getFeed), 'NonceNotUnique')
})

conformance(55, 'a spent token is told from an expired one to the end of its last second', async (k) => {
  const sent = token(caller(k), { exp: second + 1 })
  await isServed(k, sent)
  k.world.clock.nowMs += 1999
  isRefused(await call(k, sent), 'NonceNotUnique')
})

conformance(60, 'broken JSON does not spend a token', async (k) => {
  const sent = token(caller(k))
  assert.equal((await k.call(getFeedSkeleton, '{', bearer(sent))).status, 400)
  await isServed(k, sent)
})

/** What the service says of itself on a host name. */
async function identityOn(k: Case, host: string, method = 'GET'): Promise<{ status: number; text: string }> {
  const sent = httpRequest(`${k.world.feedUrl}/.well-known/did.json`, { method, headers: { host } }).end()
  const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { statusCode?: number }] // node:http's own
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return { status: response.statusCode ?? 0, text }
}

conformance(61, 'the document of a did:web service is on its host name alone', async (k) => {
  const { status, text } = await identityOn(k, 'feed.example')
  assert.deepEqual(
    [status, JSON.parse(text)],
    [
      200,
      {
        '@context': ['https://www.w3.org/ns/did/v1'],
        id: serviceDid,
        service: [{ id: '#impact_feed', type: 'ImpactFeedService', serviceEndpoint: 'https://feed.example' }],
      },
    ],
  )
  assert.equal((await identityOn(k, 'other.example')).status, 404)
  assert.equal((await identityOn(k, 'feed.example', 'POST')).status, 405)
})

// The last one, because the clock of tokens does not go back.
conformance(45, 'a changed key is found by reading the document again', async (k) => {
  const v = caller(k)
  await isServed(k, token(v))
  v.signer = Signer.fromSeed('the next key')
  k.world.directory.publish(v)
  // A document is read again for a wrong signature every 30 seconds at most.
  k.world.clock.nowMs += 31_000
  await isServed(k, token(v))
})
