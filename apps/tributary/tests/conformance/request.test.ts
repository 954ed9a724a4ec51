/** Cases 1 to 29 and 150 to 152 of the feed specification: requests, and what browsers may ask. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type Case, getFeed, getFeedSkeleton, impactFeedId } from './case.ts'
import { startConformance } from './conformance.ts'
import { at } from './made.ts'

const conformance = startConformance()

/** V follows A, who has so many records. */
function eligible(k: Case, count: number): void {
  k.follow(k.A)
  for (let n = 0; n < count; n++) k.put(k.A, 'evaluation', k.nextKey(), { createdAt: at('10:00') })
}

/** Both methods refuse a request so. */
async function refused(
  k: Case,
  params: object,
  fields: object,
  [status, error]: readonly [number, string],
): Promise<void> {
  for (const method of [getFeed, getFeedSkeleton]) {
    const answer = await k.ask(method, params, fields)
    assert.deepEqual([answer.status, answer.error], [status, error], answer.text)
  }
}

const shape = [400, 'InvalidRequest'] as const
const value = [422, 'InvalidRequest'] as const

conformance(1, 'without a limit twenty entries and a cursor come', async (k) => {
  eligible(k, 25)
  const { feed, cursor } = await k.ask(getFeed, {}, { limit: undefined })
  assert.deepEqual([feed.length, cursor !== undefined], [20, true])
})

conformance(2, 'fifty of sixty come with a cursor', async (k) => {
  eligible(k, 60)
  const { feed, cursor } = await k.ask(getFeed, {}, { limit: 50 })
  assert.deepEqual([feed.length, cursor !== undefined], [50, true])
})

conformance(3, 'a limit of 51 to 100 is a value that the feed does not take', async (k) => {
  for (const limit of [51, 100]) await refused(k, {}, { limit }, value)
})

conformance(4, 'a limit that is none is a fault of shape', async (k) => {
  for (const limit of [0, -1, 101, 2.5, '10']) await refused(k, {}, { limit }, shape)
})

conformance(6, 'a body that is not JSON is refused on both methods, readable from any origin', async (k) => {
  for (const method of [getFeed, getFeedSkeleton]) {
    const { status, error, headers } = await k.call(method, '{')
    assert.deepEqual(
      [status, error, headers.get('access-control-allow-origin')],
      [400, 'InvalidRequest', '*'],
    )
  }
})

/** What is answered to bytes that are sent as they are, before the connection ends. */
async function raw(k: Case, bytes: string): Promise<string> {
  const { hostname, port } = new URL(k.world.feedUrl)
  const socket = connect(Number(port), hostname)
  socket.write(bytes)
  const [chunk] = (await once(socket, 'data')) as [Buffer] // as documented
  socket.destroy()
  return chunk.toString()
}

const head = `POST /xrpc/${getFeed} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n`

conformance(7, 'a declared length over 65,536 is refused before the body', async (k) => {
  assert.match(await raw(k, `${head}Content-Length: 65537\r\n\r\n`), /^HTTP\/1.1 413 [^]*"InvalidRequest"/)
})

conformance(8, 'a body in pieces over 65,536 bytes is refused before its end', async (k) => {
  const piece = `8000\r\n${' '.repeat(0x8000)}\r\n`
  const sent = `${head}Transfer-Encoding: chunked\r\n\r\n${piece.repeat(2)}1\r\n \r\n`
  assert.match(await raw(k, sent), /^HTTP\/1.1 413 [^]*"InvalidRequest"/)
})

conformance(9, 'GET is not allowed', async (k) => {
  const response = await fetch(`${k.world.feedUrl}/xrpc/${getFeed}`)
  const { error } = (await response.json()) as { error: string } // as every refusal
  assert.deepEqual([response.status, response.headers.get('allow'), error], [405, 'POST', 'InvalidRequest'])
})

conformance(10, 'only JSON is read, with any parameters', async (k) => {
  const asText = await k.call(getFeed, k.body(), { 'content-type': 'text/plain' })
  assert.deepEqual([asText.status, asText.error], shape)
  const asJson = await k.call(getFeed, k.body(), { 'content-type': 'application/json; charset=utf-8' })
  assert.equal(asJson.status, 200)
})

conformance(11, 'an unknown feed is told before its params are looked into', async (k) => {
  const { status, error } = await k.call(getFeed, {
    feedId: 'other',
    params: { $type: 'a.b.c#d', limit: {} },
  })
  assert.deepEqual([status, error], [400, 'UnsupportedFeed'])
})

for (const [number, what, params] of [
  [12, 'params are needed', undefined],
  [13, 'params of another feed are refused', { $type: 'org.impact.feed.defs#other' }],
  [14, 'params need a $type', { viewerDid: 'did:plc:x' }],
] as const) {
  conformance(number, what, async (k) => {
    const { status, error } = await k.call(getFeed, { feedId: impactFeedId, params })
    assert.deepEqual([status, error], shape)
  })
}

conformance(15, 'a viewer is a DID', (k) => refused(k, { viewerDid: 'alice.test' }, {}, shape))
conformance(16, 'a viewer of 257 characters is refused', (k) =>
  refused(k, { viewerDid: `did:plc:${'a'.repeat(249)}` }, {}, shape),
)

conformance(17, 'an unknown kind is refused by its name', async (k) => {
  await refused(k, { kinds: [''] }, {}, value)
  const { status, text } = await k.ask(getFeed, { kinds: ['cert.creat'] })
  assert.deepEqual([status, text.includes('cert.creat')], [422, true])
})

conformance(18, 'no kinds are all kinds', async (k) => {
  eligible(k, 2)
  assert.equal((await k.ask(getFeed, { kinds: [] })).text, (await k.ask(getFeed)).text)
})

conformance(19, 'more than 32 kinds are refused', (k) =>
  refused(k, { kinds: Array.from({ length: 33 }, () => 'cert.create') }, {}, shape),
)

conformance(20, 'a hundred copies of an evaluator are one', async (k) => {
  k.endorse(k.E, k.A)
  k.put(k.A, 'activity', 'act')
  const trustedEvaluators = Array.from({ length: 100 }, () => k.E)
  assert.deepEqual(await k.keys({ trustedEvaluators }), ['act'])
})

const evaluators = (count: number): object => ({
  trustedEvaluators: Array.from({ length: count }, (_, n) => `did:plc:evaluator${n}`),
})
conformance(21, 'evaluators are bounded', async (k) => {
  await refused(k, evaluators(65), {}, value)
  await refused(k, evaluators(129), {}, shape)
})
conformance(22, 'an evaluator is a DID', (k) => refused(k, { trustedEvaluators: ['e.test'] }, {}, shape))

conformance(23, 'an unknown quality is refused', async (k) => {
  for (const quality of ['excellent', '']) await refused(k, { organizationQuality: [quality] }, {}, value)
})

conformance(24, 'both forms of the quality rule give one page', async (k) => {
  eligible(k, 2)
  const list = await k.ask(getFeed, { organizationQuality: ['high-quality'] })
  const allowed = { allowed: ['high-quality'], includeUnrated: false }
  const object = await k.ask(getFeed, { organizationQuality: allowed })
  assert.deepEqual([list.status, list.text], [200, object.text])
})

conformance(25, 'the object form needs both its fields', (k) =>
  refused(k, { organizationQuality: { allowed: ['high-quality'] } }, {}, shape),
)

conformance(26, 'authors cannot be named', async (k) => {
  k.put(k.B, 'activity', 'b')
  eligible(k, 1)
  assert.equal((await k.keys({ authors: [k.B] })).includes('b'), false)
})

conformance(27, 'limit and cursor inside params say nothing', async (k) => {
  eligible(k, 2)
  assert.equal((await k.keys({ limit: 1, cursor: 'x' })).length, 2)
})

conformance(150, 'a preflight for POST is granted to any origin', async (k) => {
  const { status, headers, text } = await k.call(
    getFeed,
    undefined,
    {},
    {
      method: 'OPTIONS',
      headers: {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type, authorization',
      },
    },
  )
  const granted = ['allow-origin', 'allow-methods', 'allow-headers', 'max-age'].map((name) =>
    headers.get(`access-control-${name}`),
  )
  assert.deepEqual([status, text, granted], [204, '', ['*', 'POST', 'content-type, authorization', '600']])
})

conformance(151, 'any other preflight is refused, readable from any origin', async (k) => {
  const origin = 'https://app.example'
  for (const headers of [
    { origin, 'access-control-request-method': 'GET' },
    { origin },
    { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-request-id' },
  ]) {
    const answer = await k.call(getFeed, undefined, {}, { method: 'OPTIONS', headers })
    assert.deepEqual([answer.status, answer.error], shape)
    assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  }
})

conformance(152, 'metrics are not on the public address', async (k) => {
  assert.equal((await fetch(`${k.world.feedUrl}/metrics`)).status, 404)
})
