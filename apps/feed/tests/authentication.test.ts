/** Behaviour cases 30 to 60 of the feed specification: who calls, and how a token is checked and spent. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { UsedTokens } from '../src/auth/used-tokens.ts'
import { DidHost } from './did-host.ts'
import { did } from './sample.ts'
import { request, TestFeed, type Reply } from './test-feed.ts'
import { getFeed, getFeedSkeleton, serviceDid, TokenIssuer } from './token-issuer.ts'

const alice = did('alice')
const impactParams = request({})
let feed: TestFeed
let viewer: TokenIssuer

before(async () => {
  feed = await TestFeed.start()
  viewer = await TokenIssuer.register(feed.didHost, 'viewer')
  await feed.index.follow(viewer.did, alice)
  await feed.index.entry({ did: alice })
})
after(() => feed[Symbol.asyncDispose]())

test('a token of the viewer gives the feed of the viewer, on both methods', async () => {
  for (const lxm of [getFeed, getFeedSkeleton]) {
    const { status, body } = await callWith(await viewer.token({ lxm }), {}, lxm)
    assert.deepEqual([status, body.feed?.length], [200, 1])
  }
})

test('a token and the same viewerDid give the feed of the viewer', async () => {
  const { status, body } = await callWith(await viewer.token(), { viewerDid: viewer.did })
  assert.deepEqual([status, body.feed?.length], [200, 1])
})

test('a token and another viewerDid are refused, and the token is spent', async () => {
  const token = await viewer.token()
  const other = await callWith(token, { viewerDid: alice })
  assert.deepEqual([other.status, other.body.error], [400, 'InvalidRequest'])
  assertRefused(await callWith(token), 'NonceNotUnique')
})

test('a bad token is refused although there is a good viewerDid, without a read, and shows nothing', async () => {
  await using broken = await TestFeed.start()
  await broken.breakIndex()
  const token = await viewer.token({ aud: did('elsewhere') })
  const reply = await broken.call(getFeedSkeleton, request({ viewerDid: viewer.did }), bearer(token))
  assertRefused(reply, 'InvalidAudience')
  assert.ok(!reply.text.includes(token) && !reply.text.includes(viewer.did))
})

test('the reason of a refusal can be read by pages of other origins', async () => {
  const { headers } = await callWith('x')
  assert.equal(headers.get('access-control-expose-headers'), 'WWW-Authenticate')
  assert.equal(headers.get('access-control-allow-origin'), '*')
})

for (const authorization of ['Basic abc', 'bearer abc', 'Bearer', 'x']) {
  test(`the header "${authorization}" is refused as MissingBearer`, async () => {
    assertRefused(await feed.call(getFeedSkeleton, impactParams, { authorization }), 'MissingBearer')
  })
}

const now = (): number => Math.floor(Date.now() / 1000)

/** Tokens made with other claims or header fields, and the reason they are refused for. */
const badClaims: readonly {
  readonly what: string
  readonly claims?: object
  readonly header?: object
  readonly fault: string
}[] = [
  { what: 'alg none', header: { alg: 'none' }, fault: 'BadJwt' },
  { what: 'no alg', header: { alg: undefined }, fault: 'BadJwt' },
  { what: 'alg of another type', header: { alg: 1 }, fault: 'BadJwt' },
  { what: 'typ of another type', header: { typ: 1 }, fault: 'BadJwt' },
  ...['at+jwt', 'refresh+jwt', 'dpop+jwt'].map((typ) => ({
    what: `typ ${typ}`,
    header: { typ },
    fault: 'BadJwt',
  })),
  { what: 'an issuer that is no DID', claims: { iss: 'alice.test' }, fault: 'BadJwt' },
  { what: 'an issuer with a fragment', claims: { iss: `${alice}#atproto` }, fault: 'BadJwt' },
  { what: 'no audience', claims: { aud: undefined }, fault: 'BadJwt' },
  { what: 'a list of audiences', claims: { aud: [serviceDid] }, fault: 'BadJwt' },
  { what: 'the audience with a fragment', claims: { aud: `${serviceDid}#impact_feed` }, fault: 'BadJwt' },
  { what: 'no exp', claims: { exp: undefined }, fault: 'BadJwt' },
  { what: 'exp as text', claims: { exp: '9999999999' }, fault: 'BadJwt' },
  { what: 'exp with a fraction', claims: { exp: now() + 1.5 }, fault: 'BadJwt' },
  { what: 'exp 0', claims: { exp: 0 }, fault: 'BadJwt' },
  { what: 'a negative iat', claims: { iat: -1 }, fault: 'BadJwt' },
  { what: 'nbf null', claims: { nbf: null }, fault: 'BadJwt' },
  { what: 'lxm of another type', claims: { lxm: 1 }, fault: 'BadJwt' },
  { what: 'another audience', claims: { aud: did('elsewhere') }, fault: 'InvalidAudience' },
  { what: 'nbf 60 seconds ahead', claims: { nbf: now() + 60 }, fault: 'JwtNotYetValid' },
  { what: 'exp in the past', claims: { exp: now() - 5 }, fault: 'JwtExpired' },
  { what: 'exp far ahead', claims: { exp: now() + 330 }, fault: 'JwtTooOld' },
  { what: 'iat far back', claims: { iat: now() - 330 }, fault: 'JwtTooOld' },
  { what: 'iat far ahead', claims: { iat: now() + 330 }, fault: 'JwtTooOld' },
  { what: 'no lxm', claims: { lxm: undefined }, fault: 'BadJwtLexiconMethod' },
  { what: 'lxm of the other method', claims: { lxm: getFeed }, fault: 'BadJwtLexiconMethod' },
  { what: 'no jti', claims: { jti: undefined }, fault: 'BadJwt' },
  ...['', 7, true, { a: 1 }, null, 'x'.repeat(257), 'é'.repeat(129)].map((jti) => ({
    what: `jti ${JSON.stringify(jti).slice(0, 20)}`,
    claims: { jti },
    fault: 'BadJwt',
  })),
]

for (const { what, claims, header, fault } of badClaims) {
  test(`a token with ${what} is refused as ${fault}`, async () => {
    assertRefused(await callWith(await viewer.token(claims, header)), fault)
  })
}

test('what is no JWT is refused as BadJwt', async () => {
  const [header, payload, signature] = (await viewer.token()).split('.')
  const bad = [
    `${header}.${payload}`,
    `${header}.${payload}.${signature}.${signature}`,
    `${header}..${signature}`,
    `bm90anNvbg.${payload}.${signature}`,
    `W10.${payload}.${signature}`,
    `${header}=.${payload}.${signature}`,
    `${header}.bm90anNvbg.${signature}`,
    `${header}.bnVsbA.${signature}`,
  ]
  for (const token of bad) assertRefused(await callWith(token), 'BadJwt')
})

test('the last second of a token counts to its end, and the next one does not', async () => {
  const clock = { nowMs: Date.parse('2026-03-04T12:00:00.999Z') }
  await using service = await TestFeed.start({ now: () => clock.nowMs })
  const issuer = await TokenIssuer.register(service.didHost, 'viewer')
  const second = Math.floor(clock.nowMs / 1000)
  const present = await issuer.token({ iat: second, exp: second })
  const past = await issuer.token({ iat: second, exp: second - 1 })
  assert.equal((await callWith(present, {}, getFeedSkeleton, service)).status, 200)
  assertRefused(await callWith(past, {}, getFeedSkeleton, service), 'JwtExpired')
})

test('a token may expire and have been issued as far from now as the setting says', async () => {
  const nowMs = Date.parse('2026-03-04T12:00:00Z')
  await using service = await TestFeed.start({ now: () => nowMs })
  const issuer = await TokenIssuer.register(service.didHost, 'viewer')
  const second = nowMs / 1000
  const call = async (claims: object): Promise<Reply> =>
    callWith(await issuer.token(claims), {}, getFeedSkeleton, service)
  assert.equal((await call({ iat: second - 300, exp: second + 300 })).status, 200)
  assertRefused(await call({ iat: second, exp: second + 301 }), 'JwtTooOld')
  assertRefused(await call({ iat: second - 301, exp: second }), 'JwtTooOld')
})

test('a token with the wrong method, or none, does not spend its nonce', async () => {
  await callWith(await viewer.token({ jti: 'kept', lxm: getFeed }))
  await callWith(await viewer.token({ jti: 'kept', lxm: undefined }))
  assert.equal((await callWith(await viewer.token({ jti: 'kept' }))).status, 200)
})

test('a token signed by another key is refused, and does not spend its nonce', async () => {
  const impostor = await TokenIssuer.register(feed.didHost, 'impostor')
  const forged = await impostor.token({ iss: viewer.did, jti: 'forged' })
  assertRefused(await callWith(forged), 'BadJwtSignature')
  assert.equal((await callWith(await viewer.token({ jti: 'forged' }))).status, 200)
})

for (const curve of ['k256', 'p256'] as const) {
  test(`both signatures of a ${curve} key are accepted, and nothing else`, async () => {
    const issuer = await TokenIssuer.register(feed.didHost, `signer${curve}`, { curve })
    assert.equal((await callWith(await issuer.token())).status, 200)
    assert.equal((await callWith(issuer.withHighS(await issuer.token()))).status, 200)
    const [header, payload, signature = ''] = (await issuer.token()).split('.')
    const zeros = Buffer.alloc(64).toString('base64url')
    const ones = Buffer.alloc(64, 255).toString('base64url')
    for (const bad of [zeros, ones, signature.slice(0, -4), '!', Buffer.from('x').toString('base64url')]) {
      assertRefused(await callWith(`${header}.${payload}.${bad}`), 'BadJwtSignature')
    }
  })

  test(`a token of a ${curve} key that names the other algorithm is refused`, async () => {
    const issuer = await TokenIssuer.register(feed.didHost, `otheralg${curve}`, { curve })
    const alg = issuer.alg === 'ES256' ? 'ES256K' : 'ES256'
    assertRefused(await callWith(await issuer.token({}, { alg })), 'BadJwtSignature')
  })
}

test('a document without a key of the account is refused', async () => {
  const issuer = await TokenIssuer.register(feed.didHost, 'keyless')
  feed.didHost.documents.set(`/${issuer.did}`, { id: issuer.did, verificationMethod: [] })
  assertRefused(await callWith(await issuer.token()), 'BadJwtSignature')
})

test('a key that was changed after its document was cached is loaded again', async () => {
  const issuer = await TokenIssuer.register(feed.didHost, 'rotating')
  assert.equal((await callWith(await issuer.token())).status, 200)
  await issuer.changeKey()
  feed.didHost.documents.set(`/${issuer.did}`, issuer.document())
  assert.equal((await callWith(await issuer.token())).status, 200)
})

test('an issuer whose document cannot be loaded in time is refused', async () => {
  await using service = await TestFeed.start({ settings: { didDocumentMs: 100 } })
  const issuer = await TokenIssuer.register(service.didHost, 'viewer')
  service.didHost.documents.set(`/${issuer.did}`, () => {
    // Never answers.
  })
  assertRefused(await callWith(await issuer.token(), {}, getFeedSkeleton, service), 'DidResolutionFailed')
})

test('documents that hang for one network keep no other network waiting', async () => {
  const settings = { didDocumentMs: 10_000, trustedProxies: ['127.0.0.1'] }
  await using service = await TestFeed.start({ settings })
  const { documents } = service.didHost
  const hanging: ServerResponse[] = []
  const isFull = Promise.withResolvers<void>()
  // Half of the places at the directory: the most that one cause gets.
  const placesMax = 128
  const flood = Array.from({ length: placesMax + 20 }, async (_, i) => {
    const iss = did(`flood${String.fromCharCode(97 + (i % 26), 97 + Math.floor(i / 26))}`)
    documents.set(`/${iss}`, (_request, response) => {
      hanging.push(response)
      if (hanging.length === placesMax) isFull.resolve()
      if (hanging.length > placesMax) response.end()
    })
    return callFrom('192.0.2.1', await viewer.token({ iss }), service)
  })
  await isFull.promise

  const issuer = await TokenIssuer.register(service.didHost, 'honest')
  assert.equal((await callFrom('192.0.2.2', await issuer.token(), service)).status, 200)
  for (const response of hanging) response.end()
  for (const answer of await Promise.all(flood)) assert.equal(answer.status, 401)
})

for (const [what, answer] of Object.entries({
  'is not there': undefined,
  'belongs to another DID': { id: did('somebody') },
  'is larger than 128 KiB': { id: did('documented'), note: 'x'.repeat(131_072) },
  'is a list': [],
})) {
  test(`an issuer whose document ${what} is refused`, async () => {
    await using service = await TestFeed.start()
    const issuer = await TokenIssuer.register(service.didHost, 'documented')
    if (answer) service.didHost.documents.set(`/${issuer.did}`, answer)
    else service.didHost.documents.clear()
    assertRefused(await callWith(await issuer.token(), {}, getFeedSkeleton, service), 'DidResolutionFailed')
  })
}

test('a token for another method is refused before anything is asked of its issuer', async () => {
  await using web = await DidHost.start()
  await using service = await TestFeed.start({ settings: { allowedPrivateHosts: [`localhost:${web.port}`] } })
  const account = `did:web:localhost%3A${web.port}` as Did // a did:web with a port
  const issuer = await TokenIssuer.register(web, 'web', { did: account, path: '/.well-known/did.json' })
  const token = await issuer.token({ lxm: getFeed })
  assertRefused(await callWith(token, {}, getFeedSkeleton, service), 'BadJwtLexiconMethod')
  assert.deepEqual(web.requests, [])
})

test('a did:web issuer on an allowed private host is accepted', async () => {
  await using web = await DidHost.start()
  await using service = await TestFeed.start({ settings: { allowedPrivateHosts: [`localhost:${web.port}`] } })
  const account = `did:web:localhost%3A${web.port}` as Did // a did:web with a port
  const issuer = await TokenIssuer.register(web, 'web', { did: account, path: '/.well-known/did.json' })
  assert.equal((await callWith(await issuer.token(), {}, getFeedSkeleton, service)).status, 200)
})

test('a did:web issuer on a private address is refused, and nothing reaches that address', async () => {
  await using web = await DidHost.start()
  for (const name of [
    `localhost%3A${web.port}`,
    `127.0.0.1%3A${web.port}`,
    '127.0.0.1',
    'localhost',
    '%5B%3A%3A1%5D',
  ]) {
    const account = `did:web:${name}` as Did // not all of them are
    const issuer = await TokenIssuer.register(web, 'web', { did: account, path: '/.well-known/did.json' })
    assertRefused(await callWith(await issuer.token()), /DidResolutionFailed|BadJwt/)
  }
  assert.deepEqual(web.requests, [])
})

test('a did:web issuer whose host redirects is refused, and nothing reaches the other address', async () => {
  await using target = await DidHost.start()
  await using web = await DidHost.start()
  await using service = await TestFeed.start({
    settings: { allowedPrivateHosts: [`localhost:${web.port}`, `localhost:${target.port}`] },
  })
  const account = `did:web:localhost%3A${web.port}` as Did // a did:web with a port
  const issuer = await TokenIssuer.register(target, 'web', { did: account, path: '/.well-known/did.json' })
  web.documents.set('/.well-known/did.json', (_request, response) => {
    response.writeHead(302, { location: `http://localhost:${target.port}/.well-known/did.json` }).end()
  })
  assertRefused(await callWith(await issuer.token(), {}, getFeedSkeleton, service), 'DidResolutionFailed')
  assert.deepEqual([web.requests.length, target.requests], [1, []])
})

test('a nonce of 256 bytes that are not ASCII, or of one space, is accepted', async () => {
  for (const jti of ['é'.repeat(128), ' ']) {
    assert.equal((await callWith(await viewer.token({ jti }))).status, 200)
  }
})

test('a token is taken once, also when it comes twice at once', async () => {
  const token = await viewer.token()
  const replies = await Promise.all([callWith(token), callWith(token), callWith(token)])
  assert.deepEqual(
    replies.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 401, 401],
  )
  assertRefused(await callWith(token), 'NonceNotUnique')
})

test('one nonce of two issuers is two tokens', async () => {
  const other = await TokenIssuer.register(feed.didHost, 'other')
  for (const issuer of [viewer, other]) {
    assert.equal((await callWith(await issuer.token({ jti: 'shared' }))).status, 200)
  }
})

test('one nonce on both methods is one token', async () => {
  assert.equal((await callWith(await viewer.token({ jti: 'both' }))).status, 200)
  const again = await callWith(await viewer.token({ jti: 'both', lxm: getFeed }), {}, getFeed)
  assertRefused(again, 'NonceNotUnique')
})

test('a token stays spent when its request fails', async () => {
  await using broken = await TestFeed.start()
  const issuer = await TokenIssuer.register(broken.didHost, 'viewer')
  await broken.breakIndex()
  const token = await issuer.token()
  assert.equal((await callWith(token, {}, getFeedSkeleton, broken)).status, 500)
  assertRefused(await callWith(token, {}, getFeedSkeleton, broken), 'NonceNotUnique')
})

test('a token stays spent over a restart', async () => {
  await using service = await TestFeed.start()
  const issuer = await TokenIssuer.register(service.didHost, 'viewer')
  const token = await issuer.token()
  assert.equal((await callWith(token, {}, getFeedSkeleton, service)).status, 200)
  await service.restart()
  assertRefused(await callWith(token, {}, getFeedSkeleton, service), 'NonceNotUnique')
})

test('a spent token is told from an expired one to the end of its last second', async () => {
  const clock = { nowMs: Date.parse('2026-03-04T12:00:00.000Z') }
  await using service = await TestFeed.start({ now: () => clock.nowMs })
  const issuer = await TokenIssuer.register(service.didHost, 'viewer')
  const second = clock.nowMs / 1000
  const token = await issuer.token({ iat: second, exp: second + 1 })
  assert.equal((await callWith(token, {}, getFeedSkeleton, service)).status, 200)
  clock.nowMs += 1999
  assertRefused(await callWith(token, {}, getFeedSkeleton, service), 'NonceNotUnique')
  clock.nowMs += 1
  assertRefused(await callWith(token, {}, getFeedSkeleton, service), 'JwtExpired')
})

test('a token that runs out while its document is loaded is refused, and nothing is stored', async () => {
  const clock = { nowMs: Date.parse('2026-03-04T12:00:00.000Z') }
  await using service = await TestFeed.start({ now: () => clock.nowMs })
  const issuer = await TokenIssuer.register(service.didHost, 'viewer')
  const second = clock.nowMs / 1000
  service.didHost.documents.set(`/${issuer.did}`, (_request, response) => {
    clock.nowMs += 2000
    response.end(JSON.stringify(issuer.document()))
  })
  const slow = await issuer.token({ iat: second, exp: second + 1, jti: 'slow' })
  assertRefused(await callWith(slow, {}, getFeedSkeleton, service), 'JwtExpired')
  const again = await issuer.token({ iat: second + 2, exp: second + 60, jti: 'slow' })
  assert.equal((await callWith(again, {}, getFeedSkeleton, service)).status, 200)
})

test('broken JSON does not spend a token, and a fault of shape does', async () => {
  const token = await viewer.token()
  assert.equal((await feed.call(getFeedSkeleton, '{', bearer(token))).status, 400)
  assert.equal((await feed.call(getFeedSkeleton, {}, bearer(token))).status, 400)
  assertRefused(await feed.call(getFeedSkeleton, {}, bearer(token)), 'NonceNotUnique')
})

test('a token is checked before the content type', async () => {
  for (const contentType of ['text/plain', 'nonsense', ',;/']) {
    const reply = await feed.call(getFeedSkeleton, {}, { ...bearer('x'), 'content-type': contentType })
    assertRefused(reply, 'BadJwt')
  }
})

test('the store of used tokens fills per issuer and per network, and lets go of what expired', async () => {
  const clock = { nowMs: Date.parse('2026-03-04T12:00:00.000Z') }
  await using service = await TestFeed.start({ now: () => clock.nowMs })
  const issuer = await TokenIssuer.register(service.didHost, 'issuer')
  const other = await TokenIssuer.register(service.didHost, 'other')
  const noon = clock.nowMs / 1000
  const spend = async (by: TokenIssuer, jti: string, second = noon): Promise<Reply> =>
    callWith(await by.token({ iat: second, exp: second + 60, jti }), {}, getFeedSkeleton, service)
  // Tokens that another process on the same file has taken.
  const bounds = { perIssuer: 512, perNetwork: 4096, inAll: 16_384 }
  const file = join(service.directory, 'feed-used-tokens.sqlite')
  using elsewhere = new UsedTokens(file, () => clock.nowMs, bounds)
  const fill = (by: Did, count: number): void => {
    for (let i = 0; i < count; i++)
      elsewhere.spend({ issuer: by, nonce: `there-${i}`, expiresAt: noon + 60, network: '127.0.0.1' })
  }

  fill(issuer.did, 511)
  assert.equal((await spend(issuer, 'a')).status, 200)
  const refused = await spend(issuer, 'b')
  assert.deepEqual([refused.status, refused.body.error], [503, 'InternalError'])
  assert.equal((await spend(other, 'a')).status, 200, 'another issuer is served')

  for (let i = 0; i < 7; i++) fill(did(`filler${i}x`), 512)
  assert.equal((await spend(other, 'b')).status, 503, 'the store is full for this network')
  assertRefused(await spend(other, 'a'), 'NonceNotUnique')
  assert.equal((await service.ask(getFeedSkeleton)).status, 200, 'anonymous requests are served')

  clock.nowMs += 61_000
  assert.equal((await spend(issuer, 'c', noon + 61)).status, 200, 'after expiry there is room again')
  clock.nowMs -= 61_000
  assertRefused(await spend(issuer, 'a'), 'JwtExpired')
})

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` }
}

function callWith(
  token: string,
  params: object = {},
  method = getFeedSkeleton,
  service = feed,
): Promise<Reply> {
  return service.call(method, request(params), bearer(token))
}

/** A call that a proxy forwards for an address. */
function callFrom(address: string, token: string, service: TestFeed): Promise<Reply> {
  const headers = { ...bearer(token), 'x-forwarded-for': address }
  return service.call(getFeedSkeleton, impactParams, headers)
}

function assertRefused({ status, body, headers }: Reply, fault: string | RegExp): void {
  assert.deepEqual([status, body.error], [401, 'AuthenticationRequired'])
  const told = headers.get('www-authenticate') ?? ''
  if (typeof fault === 'string') assert.equal(told, `Bearer error="${fault}"`)
  else assert.match(told, fault)
}
