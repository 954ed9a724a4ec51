/** A caller and a request may take bounded time, places and calls. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { test } from 'node:test'
import type { IndexReader } from '@tributary/index-store'
import { ReaderBusyError, ReadTimeoutError } from '@tributary/index-store'
import { loadLexicons, XrpcError } from '@tributary/xrpc'
import { feeds } from '../src/feeds/registry.ts'
import { createFeedMetrics } from '../src/metrics.ts'
import { createFeedCall } from '../src/serve/feed-call.ts'
import { createPageReader, type PageReader } from '../src/serve/page.ts'
import { did, noon } from './sample.ts'
import { impactFeedId, request, TestFeed, viewer } from './test-feed.ts'
import { getFeed, getFeedSkeleton } from './token-issuer.ts'

const clock = { nowMs: Date.parse(noon) }
const limited = { now: () => clock.nowMs, settings: { requestsPerMinute: 60, requestBurst: 2 } }

test('a caller that calls too often is refused until it may call again, whichever method it calls', async () => {
  await using feed = await TestFeed.start(limited)
  assert.equal((await feed.ask(getFeed)).status, 200)
  assert.equal((await feed.call(getFeed, '{')).status, 400)
  const refused = await feed.ask(getFeedSkeleton)
  assert.deepEqual(
    [refused.status, refused.body.error, refused.headers.get('retry-after')],
    [429, 'RateLimitExceeded', '1'],
  )
  assert.equal(refused.headers.get('access-control-allow-origin'), '*')
  clock.nowMs += 1000
  assert.equal((await feed.ask(getFeedSkeleton)).status, 200)
  assert.equal((await feed.ask(getFeedSkeleton)).status, 429)
  assert.equal((await fetch(`${feed.url}/health`)).status, 200)
})

test('callers are told apart by the address that a trusted proxy gives, and by no other', async () => {
  const from = (address: string): Record<string, string> => ({ 'x-forwarded-for': address })
  const body = request({ viewerDid: viewer })
  {
    await using feed = await TestFeed.start({
      ...limited,
      settings: { ...limited.settings, trustedProxies: ['127.0.0.1'] },
    })
    const statuses: number[] = []
    for (const address of ['192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.2', '2001:db8::1'])
      statuses.push((await feed.call(getFeed, body, from(address))).status)
    for (const address of ['2001:db8::2', '2001:db8::3'])
      statuses.push((await feed.call(getFeed, body, from(address))).status)
    assert.deepEqual(statuses, [200, 200, 429, 200, 200, 200, 429])
  }
  await using feed = await TestFeed.start(limited)
  const statuses: number[] = []
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
    statuses.push((await feed.call(getFeed, body, from(address))).status)
  assert.deepEqual(statuses, [200, 200, 429])
})

test('a page that takes too long, has no place or lost its caller is answered and counted as such', async () => {
  const metrics = createFeedMetrics()
  const reader = (thrown: Error): PageReader => {
    const index: IndexReader = {
      snapshot: () => Promise.reject(thrown),
      [Symbol.asyncDispose]: async () => undefined,
    }
    return createPageReader({ index, labelers: [], queryMs: 100, metrics, now: Date.now })
  }
  const asked = { feedId: impactFeedId, viewer, evaluators: [], limit: 1 }
  const refusal = (status: number) => (error: unknown) =>
    error instanceof XrpcError && error.status === status && error.error === 'InternalError'
  await assert.rejects(reader(new ReadTimeoutError('late'))(getFeed, asked), refusal(500))
  await assert.rejects(reader(new ReaderBusyError('busy'))(getFeed, asked), refusal(503))
  await assert.rejects(
    reader(new Error('gone'))(getFeed, asked, { signal: AbortSignal.abort() }),
    refusal(499),
  )
  await assert.rejects(reader(new TypeError('defect'))(getFeed, asked), TypeError)
  const text = await metrics.registry.text()
  for (const reason of ['timeout', 'busy', 'gone'])
    assert.match(text, new RegExp(`feed_pages_unread_total\\{[^}]*reason="${reason}"[^}]*\\} 1`))
})

test('pages are read with a share for each network, an IPv4 address or a whole IPv6 /48', async () => {
  const causes: (string | undefined)[] = []
  const index: IndexReader = {
    snapshot: ({ cause }) => Promise.reject(new ReaderBusyError((causes.push(cause), 'busy'))),
    [Symbol.asyncDispose]: async () => undefined,
  }
  const readPage = createPageReader({
    index,
    labelers: [],
    queryMs: 100,
    metrics: createFeedMetrics(),
    now: Date.now,
  })
  const call = createFeedCall({
    lexicons: loadLexicons(),
    feeds,
    authenticate: async () => undefined,
    readPage,
  })
  const body = Buffer.from(JSON.stringify(request({ viewerDid: viewer })))
  for (const address of ['192.0.2.1', '2001:db8::1', '2001:db8:0:7::2', '2001:db8:7::1'])
    await assert.rejects(call(getFeed, body, { 'content-type': 'application/json' }, address), XrpcError)
  assert.deepEqual(causes, ['192.0.2.1', '2001:db8:0::/48', '2001:db8:0::/48', '2001:db8:7::/48'])
})

test('a page is read no further when its caller has gone', async () => {
  // By account alone, which takes many statements.
  const window = {
    accountsMin: 1_000_000,
    lookUpsPerAccount: 1,
    lookUpsMax: 1,
    lookUpsPerStepMax: 1,
  }
  await using feed = await TestFeed.start({ settings: { metricsPort: 0 }, window })
  const followed = 30_000
  await feed.index.followMany(
    viewer,
    Array.from({ length: followed }, (_, index) => did(`author${index}x`)),
  )
  const gone = /feed_pages_unread_total\{[^}]*reason="gone"[^}]*\} 1/
  for (let text = ''; !gone.test(text);) {
    const sent = httpRequest(`${feed.url}/xrpc/${getFeed}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    })
    sent.on('error', () => undefined)
    sent.end(JSON.stringify(request({ viewerDid: viewer })))
    await once(sent, 'finish')
    sent.destroy()
    text = await (await fetch(`${feed.metricsUrl}/metrics`)).text()
  }
})
