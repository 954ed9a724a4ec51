/** Behaviour cases 61 and 150 to 152 of the feed specification, and what operators see: other paths, start, metrics. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { readSettings, SettingsError } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import { eventually } from '@tributary/testkit'
import { feedSettings } from '../src/settings.ts'
import { did } from './sample.ts'
import { request, TestFeed, viewer } from './test-feed.ts'
import { getFeed, getFeedSkeleton, TokenIssuer } from './token-issuer.ts'

let feed: TestFeed
before(async () => {
  feed = await TestFeed.start({ settings: { metricsPort: 0 } })
})
after(() => feed[Symbol.asyncDispose]())

for (const origin of ['https://app.example', 'http://localhost:3000', 'null']) {
  test(`a preflight from ${origin} for POST is granted`, async () => {
    const response = await preflight({
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type, Authorization',
    })
    assert.deepEqual(
      [
        response.status,
        response.headers.get('access-control-allow-origin'),
        response.headers.get('access-control-allow-methods'),
        response.headers.get('access-control-allow-headers'),
        response.headers.get('access-control-max-age'),
        await response.text(),
      ],
      [204, '*', 'POST', 'content-type, authorization', '600', ''],
    )
  })
}

for (const [what, headers] of Object.entries({
  'for GET': { 'access-control-request-method': 'GET' },
  'without a method': {},
  'for another header': {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'x-request-id',
  },
})) {
  test(`a preflight ${what} is refused, readable from any origin`, async () => {
    const response = await preflight({ origin: 'https://app.example', ...headers })
    assert.deepEqual([response.status, response.headers.get('access-control-allow-origin')], [400, '*'])
    assert.equal(((await response.json()) as { error: string }).error, 'InvalidRequest')
  })
}

test('answers are kept by no cache and are open to every origin', async () => {
  for (const reply of [await feed.ask(getFeed), await feed.call(getFeed, '{')]) {
    assert.equal(reply.headers.get('cache-control'), 'no-store')
    assert.equal(reply.headers.get('access-control-allow-origin'), '*')
    assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
  }
})

test('health, readiness and the description are there for operators, without CORS', async () => {
  for (const [path, body] of Object.entries({ '/health': { status: 'ok' }, '/ready': { status: 'ready' } })) {
    const response = await fetch(feed.url + path)
    assert.deepEqual([response.status, await response.json()], [200, body])
    assert.equal(response.headers.get('access-control-allow-origin'), null)
  }
  const description = await (await fetch(feed.url)).text()
  assert.ok(description.includes(`/xrpc/${getFeed}`) && description.includes(`/xrpc/${getFeedSkeleton}`))
  for (const path of ['/', '/health', '/_health', '/ready', '/.well-known/did.json']) {
    const response = await fetch(feed.url + path, { method: 'POST' })
    assert.deepEqual([response.status, response.headers.get('allow')], [405, 'GET'])
  }
})

test('a service whose index is missing starts, is not ready, and is once the index is there', async () => {
  const nowhere = join(feed.directory, 'later', 'index.sqlite')
  let nowMs = Date.now()
  await using service = await TestFeed.start({ settings: { databasePath: nowhere }, now: () => nowMs })
  const response = await fetch(`${service.url}/ready`)
  const body = (await response.json()) as { status: string; reason: string }
  assert.deepEqual([response.status, body.status], [503, 'not_ready'])
  assert.ok(!body.reason.includes(nowhere))
  assert.equal((await fetch(`${service.url}/health`)).status, 200)
  assert.equal((await service.ask(getFeed)).status, 500)

  mkdirSync(dirname(nowhere))
  await using _index = await service.otherIndex(nowhere)
  nowMs += 1000
  assert.equal((await fetch(`${service.url}/ready`)).status, 200)
  assert.equal((await service.ask(getFeed)).status, 200)
})

test('a service makes no directory for an index, says that it is missing, and takes tokens once the index has made it', async () => {
  const databasePath = join(feed.directory, 'mistyped', 'data', 'index.sqlite')
  let lines = ''
  const logger = createLogger('feed', { destination: { write: (line) => (lines += line) } })
  await using service = await TestFeed.start({ settings: { databasePath }, logger })
  const issuer = await TokenIssuer.register(service.didHost, 'early')
  const token = await issuer.token()
  const call = async (): Promise<number> =>
    (
      await service.call(getFeedSkeleton, request({ viewerDid: issuer.did }), {
        authorization: `Bearer ${token}`,
      })
    ).status
  assert.equal(await call(), 500)
  assert.equal(existsSync(dirname(dirname(databasePath))), false)
  const told = lines
    .split('\n')
    .filter((line) => line.includes('the directory of the index database is missing'))
  assert.equal(told.length, 1)
  assert.ok(told[0]?.includes(`"directory":"${dirname(databasePath)}"`))

  mkdirSync(dirname(databasePath), { recursive: true })
  await using _index = await service.otherIndex(databasePath)
  assert.equal(await call(), 200)
  assert.equal(await call(), 401)
})

test('an index that is removed and made anew is read anew', async () => {
  const databasePath = join(feed.directory, 'anew.sqlite')
  await using service = await TestFeed.start({ settings: { databasePath } })
  {
    await using index = await service.otherIndex(databasePath)
    await index.follow(viewer, did('alice'))
    await index.entry({ did: did('alice') })
  }
  assert.equal((await service.skeleton()).subjects.length, 1)
  for (const suffix of ['', '-wal', '-shm']) await rm(databasePath + suffix, { force: true })
  assert.equal((await fetch(`${service.url}/ready`)).status, 503)
  await using index = await service.otherIndex(databasePath)
  assert.deepEqual((await service.skeleton()).subjects, [])
  await index.follow(viewer, did('alice'))
  const uri = await index.entry({ did: did('alice') })
  assert.deepEqual((await service.skeleton()).subjects, [uri])
})

test('a service whose index cannot be read is not ready', async () => {
  await using service = await TestFeed.start()
  await service.breakIndex()
  assert.equal((await fetch(`${service.url}/ready`)).status, 503)
})

test('a start that finds no index says why, and one that finds it says nothing of it', async () => {
  let lines = ''
  const logger = createLogger('feed', { destination: { write: (line) => (lines += line) } })
  await using service = await TestFeed.start({ logger })
  assert.equal((await fetch(`${service.url}/ready`)).status, 200)
  assert.doesNotMatch(lines, /calls fail/)
  await service.breakIndex()
  await service.restart()
  await eventually(() => /"reason":"\w+Error: .+"msg":"calls fail until the index can be read"/.test(lines))
})

test('another method is not implemented, and another path is not found', async () => {
  const other = await fetch(`${feed.url}/xrpc/org.impact.feed.other`, { method: 'POST' })
  assert.deepEqual(
    [other.status, ((await other.json()) as { error: string }).error],
    [501, 'MethodNotImplemented'],
  )
  for (const path of ['/metrics', '/xrpc', '/nothing'])
    assert.equal((await fetch(feed.url + path)).status, 404)
})

test('the identity document is served on the host name of a did:web, and nowhere else', async () => {
  const there = await getOn('feed.example')
  assert.deepEqual(there, {
    status: 200,
    body: {
      '@context': ['https://www.w3.org/ns/did/v1'],
      id: 'did:web:feed.example',
      service: [{ id: '#impact_feed', type: 'ImpactFeedService', serviceEndpoint: 'https://feed.example' }],
    },
  })
  assert.equal((await getOn('Feed.Example:8443')).status, 200)
  assert.equal((await getOn('other.example')).status, 404)
  for (const serviceDid of [did('service'), 'did:web:feed.example:path', 'did:web:feed.example%3A8443']) {
    await using service = await TestFeed.start({ settings: { serviceDid } })
    assert.equal((await getOn('feed.example', service)).status, 404)
  }
})

test('metrics are on a listener of their own and name no account', async () => {
  const issuer = await TokenIssuer.register(feed.didHost, 'measured')
  await feed.index.follow(viewer, did('alice'))
  await feed.index.entry({ did: did('alice'), record: {} })
  await feed.ask(getFeed)
  await feed.call(getFeed, {}, { authorization: `Bearer ${await issuer.token()}` })
  const text = await (await fetch(`${feed.metricsUrl}/metrics`)).text()
  assert.match(text, /feed_request_seconds_count\{[^}]*method="org\.impact\.feed\.getFeed"[^}]*status="200"/)
  assert.match(text, /feed_tokens_refused_total\{[^}]*reason="BadJwtLexiconMethod"[^}]*\} 1/)
  assert.match(text, /feed_entries_dropped_total\{[^}]*\} 1/)
  assert.doesNotMatch(text, /did:|at:\/\//)
  assert.equal((await fetch(`${feed.metricsUrl}/`)).status, 404)
})

test('without a port for them there are no metrics', async () => {
  await using service = await TestFeed.start()
  assert.equal(service.metricsUrl, undefined)
})

test('settings that do not fit are told together', () => {
  const env = {
    TRIBUTARY_FEED_SERVICE_DID: 'did:web:feed.example#impact_feed',
    TRIBUTARY_FEED_LABELERS: 'did:plc:good,labeler.example',
    TRIBUTARY_FEED_MAX_TOKEN_AGE_SECONDS: '3601',
    TRIBUTARY_FEED_DID_DOCUMENT_MS: '99',
    TRIBUTARY_FEED_REQUEST_MS: '1',
  }
  assert.throws(
    () => readSettings(feedSettings, { env }),
    (error) => error instanceof SettingsError && error.problems.length === 5,
  )
  assert.throws(() => readSettings(feedSettings, { env: {} }), /TRIBUTARY_FEED_SERVICE_DID.*no default/)
})

function preflight(headers: Record<string, string>): Promise<Response> {
  return fetch(`${feed.url}/xrpc/${getFeed}`, { method: 'OPTIONS', headers })
}

/** GETs the identity document under a host name. */
async function getOn(host: string, service = feed): Promise<{ status: number | undefined; body: unknown }> {
  const sent = httpRequest(`${service.url}/.well-known/did.json`, { headers: { host } }).end()
  const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { statusCode?: number }] // node:http's own
  let text = ''
  for await (const chunk of response) text += chunk
  return { status: response.statusCode, body: JSON.parse(text) }
}
