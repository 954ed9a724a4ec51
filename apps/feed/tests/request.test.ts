/** Behaviour cases 1 to 29 of the feed specification: the shape and the values of a request, and failures of ours. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { loadLexicons } from '@tributary/xrpc'
import { did } from './sample.ts'
import { impactFeedId, request, TestFeed, viewer } from './test-feed.ts'
import { getFeed, getFeedSkeleton } from './token-issuer.ts'

const alice = did('alice')
let feed: TestFeed
/** The same service over an index that cannot be read: whatever it refuses, it refuses without reading. */
let broken: TestFeed

before(async () => {
  feed = await TestFeed.start()
  await feed.index.follow(viewer, alice)
  await feed.index.entries(alice, 60)
  broken = await TestFeed.start()
  await broken.breakIndex()
})
after(async () => {
  await feed[Symbol.asyncDispose]()
  await broken[Symbol.asyncDispose]()
})

const badShapes: readonly { readonly what: string; readonly body: unknown; readonly field?: string }[] = [
  { what: 'an empty object', body: {}, field: 'feedId' },
  { what: 'a list', body: [] },
  { what: 'null', body: null },
  {
    what: 'a feedId of 513 bytes',
    body: request({ viewerDid: viewer }, { feedId: 'x'.repeat(513) }),
    field: 'feedId',
  },
  { what: 'a feedId that is a number', body: request({ viewerDid: viewer }, { feedId: 7 }), field: 'feedId' },
  ...[0, -1, 101, 2.5, '10', null].map((limit) => ({
    what: `limit ${JSON.stringify(limit)}`,
    body: request({ viewerDid: viewer }, { limit }),
    field: 'limit',
  })),
  {
    what: 'a cursor of 4097 characters',
    body: request({ viewerDid: viewer }, { cursor: 'x'.repeat(4097) }),
    field: 'cursor',
  },
  { what: 'a cursor that is null', body: request({ viewerDid: viewer }, { cursor: null }), field: 'cursor' },
  { what: 'no params', body: { feedId: impactFeedId }, field: 'params' },
  {
    what: 'params of another feed',
    body: { feedId: impactFeedId, params: { $type: 'org.impact.feed.defs#other' } },
    field: 'params',
  },
  {
    what: 'params without $type',
    body: { feedId: impactFeedId, params: { viewerDid: viewer } },
    field: 'params',
  },
  { what: 'params without $type of an unknown feed', body: { feedId: 'other', params: {} }, field: 'params' },
  { what: 'params that are text', body: { feedId: impactFeedId, params: 'x' }, field: 'params' },
  { what: 'no viewer', body: request({}), field: 'viewerDid' },
  { what: 'a handle as viewer', body: request({ viewerDid: 'alice.test' }), field: 'viewerDid' },
  {
    what: 'a viewer of 257 characters',
    body: request({ viewerDid: `did:plc:${'a'.repeat(249)}` }),
    field: 'viewerDid',
  },
  { what: 'a viewer that ends in a colon', body: request({ viewerDid: 'did:plc:' }), field: 'viewerDid' },
  { what: 'a viewer that is null', body: request({ viewerDid: null }), field: 'viewerDid' },
  { what: '33 known kinds', body: ask({ kinds: Array(33).fill('cert.create') }), field: 'kinds' },
  { what: 'a kind of 65 bytes', body: ask({ kinds: ['x'.repeat(65)] }), field: 'kinds' },
  { what: 'a kind that is a number', body: ask({ kinds: [1] }), field: 'kinds' },
  { what: 'kinds that are text', body: ask({ kinds: 'cert.create' }), field: 'kinds' },
  {
    what: '129 evaluators',
    body: ask({ trustedEvaluators: Array(129).fill(alice) }),
    field: 'trustedEvaluators',
  },
  {
    what: 'an evaluator that is no DID',
    body: ask({ trustedEvaluators: ['alice.test'] }),
    field: 'trustedEvaluators',
  },
  {
    what: 'nine quality labels',
    body: ask({ organizationQuality: Array(9).fill('draft') }),
    field: 'organizationQuality',
  },
  {
    what: 'a quality label of 33 bytes',
    body: ask({ organizationQuality: ['x'.repeat(33)] }),
    field: 'organizationQuality',
  },
  {
    what: 'a quality label alone',
    body: ask({ organizationQuality: 'draft' }),
    field: 'organizationQuality',
  },
  {
    what: 'a quality rule that is null',
    body: ask({ organizationQuality: null }),
    field: 'organizationQuality',
  },
  {
    what: 'a quality rule without includeUnrated',
    body: ask({ organizationQuality: { allowed: ['draft'] } }),
    field: 'organizationQuality',
  },
  {
    what: 'a quality rule without allowed',
    body: ask({ organizationQuality: { includeUnrated: true } }),
    field: 'organizationQuality',
  },
  {
    what: 'includeUnrated as text',
    body: ask({ organizationQuality: { allowed: [], includeUnrated: 'yes' } }),
    field: 'organizationQuality',
  },
]

for (const { what, body, field } of badShapes) {
  test(`${what} is refused with 400, without a read`, async () => {
    const { status, body: answer } = await broken.call(getFeed, JSON.stringify(body))
    assert.deepEqual([status, answer.error], [400, 'InvalidRequest'])
    if (field) assert.match(answer.message ?? '', new RegExp(field))
  })
}

const badValues: readonly {
  readonly what: string
  readonly params?: object
  readonly fields?: object
  readonly names: string
}[] = [
  { what: 'limit 51', fields: { limit: 51 }, names: 'limit' },
  { what: 'limit 100', fields: { limit: 100 }, names: 'limit' },
  { what: 'an unknown kind', params: { kinds: ['cert.creat'] }, names: '"cert.creat"' },
  { what: 'an empty kind', params: { kinds: [''] }, names: '""' },
  { what: '65 different evaluators', params: { trustedEvaluators: names(65) }, names: 'trustedEvaluators' },
  { what: 'an unknown quality label', params: { organizationQuality: ['excellent'] }, names: '"excellent"' },
  { what: 'an empty quality label', params: { organizationQuality: [''] }, names: '""' },
  {
    what: 'an unknown label in a quality object',
    params: { organizationQuality: { allowed: ['excellent'], includeUnrated: true } },
    names: '"excellent"',
  },
]

for (const { what, params = {}, fields = {}, names } of badValues) {
  test(`${what} is refused with 422, without a read`, async () => {
    const { status, body } = await broken.ask(getFeedSkeleton, params, fields)
    assert.deepEqual([status, body.error], [422, 'InvalidRequest'])
    assert.ok(body.message?.includes(names), body.message)
  })
}

test('a page has 20 entries and a cursor unless a limit is given', async () => {
  const { subjects, cursor } = await feed.skeleton()
  assert.equal(subjects.length, 20)
  assert.ok(cursor)
})

test('a page has as many as 50 entries', async () => {
  const { subjects, cursor } = await feed.skeleton({}, { limit: 50 })
  assert.equal(subjects.length, 50)
  assert.ok(cursor)
})

for (const method of [getFeed, getFeedSkeleton]) {
  for (const body of ['{', '', '\u0000', 'undefined']) {
    test(`${JSON.stringify(body)} as a body of ${method} is refused with 400, readable from any origin`, async () => {
      const { status, body: answer, headers } = await broken.call(method, body)
      assert.deepEqual([status, answer.error], [400, 'InvalidRequest'])
      assert.equal(headers.get('access-control-allow-origin'), '*')
    })
  }
}

test('a body that is not UTF-8 is refused with 400', async () => {
  const response = await fetch(`${feed.url}/xrpc/${getFeed}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
  })
  assert.equal(response.status, 400)
})

test('a declared length above the limit is refused before the body is sent', async () => {
  using socket = openSocket()
  socket.write(head('content-length: 65537'))
  assert.match(await answerOn(socket), /^HTTP\/1\.1 413 [^]*"InvalidRequest"/)
})

test('a body that grows past the limit is refused while it is being sent', async () => {
  using socket = openSocket()
  socket.write(head('transfer-encoding: chunked'))
  for (let i = 0; i < 5; i++) socket.write(`4000\r\n${'x'.repeat(0x4000)}\r\n`)
  // The last chunk is never sent: an answer means that nobody waits for it.
  assert.match(await answerOn(socket), /^HTTP\/1\.1 413 [^]*"InvalidRequest"/)
})

test('a request that does not arrive whole in time is ended', async () => {
  await using service = await TestFeed.start({ settings: { requestMs: 100 } })
  using socket = openSocket(service)
  socket.write(`${head('content-length: 10')}{`)
  assert.match(await answerOn(socket), /^HTTP\/1\.1 408 [^]*"InvalidRequest"/)
})

test('a body at the limit is read', async () => {
  const body = JSON.stringify(ask({}, { note: '' }))
  const { status } = await feed.call(
    getFeed,
    body.replace('"note":""', `"note":"${'x'.repeat(65_536 - body.length)}"`),
  )
  assert.equal(status, 200)
})

for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'HEAD']) {
  test(`${method} on a feed path is refused with 405 and the method to use`, async () => {
    const response = await fetch(`${feed.url}/xrpc/${getFeed}`, { method })
    assert.deepEqual([response.status, response.headers.get('allow')], [405, 'POST'])
    if (method !== 'HEAD')
      assert.equal(((await response.json()) as { error: string }).error, 'InvalidRequest')
  })
}

for (const [contentType, status] of [
  ['text/plain', 400],
  ['application/json; charset=utf-8', 200],
  ['Application/JSON', 200],
  ['application/jsonx', 400],
  ['json', 400],
  ['', 400],
] as const) {
  test(`content type "${contentType}" is answered with ${status}`, async () => {
    const reply = await feed.call(getFeed, request({ viewerDid: viewer }), { 'content-type': contentType })
    assert.equal(reply.status, status)
  })
}

test('an unknown feed is refused by name, and its params are not looked into', async () => {
  const params = { $type: 'org.other.feed#params', kinds: 7, viewerDid: false }
  const { status, body } = await broken.call(getFeed, { feedId: 'org.other.feed', params })
  assert.deepEqual([status, body.error], [400, 'UnsupportedFeed'])
})

test('an unknown feed with params of this one is refused for its shape first, then for its name', async () => {
  const misshapen = await broken.call(getFeed, {
    ...request({ viewerDid: viewer, kinds: 7 }),
    feedId: 'org.other.feed',
  })
  assert.equal(misshapen.body.error, 'InvalidRequest')
  const shaped = await broken.call(getFeed, {
    ...request({ viewerDid: viewer, kinds: ['x'] }),
    feedId: 'org.other.feed',
  })
  assert.equal(shaped.body.error, 'UnsupportedFeed')
})

test('no kinds, an empty list and all kinds mean the same', async () => {
  const all = await feed.skeleton()
  assert.deepEqual(await feed.skeleton({ kinds: [] }), all)
  assert.deepEqual(await feed.skeleton({ kinds: ['cert.create', 'cert.create'] }), all)
})

test('copies of an evaluator count once', async () => {
  const page = await feed.skeleton({ trustedEvaluators: Array(100).fill(did('evaluator')) })
  assert.deepEqual(page, await feed.skeleton())
  const { status } = await feed.ask(getFeed, { trustedEvaluators: [...names(64), ...names(64)] })
  assert.equal(status, 200)
})

test('both forms of a quality rule give the same page', async () => {
  const list = await feed.skeleton({ organizationQuality: ['high-quality'] })
  const object = await feed.skeleton({
    organizationQuality: { allowed: ['high-quality'], includeUnrated: false },
  })
  assert.deepEqual(object, list)
})

test('unknown fields are ignored, and so are limit and cursor inside params and in the address', async () => {
  const plain = await feed.skeleton()
  assert.deepEqual(
    await feed.skeleton({ authors: [did('somebody')], limit: 3, cursor: 'x' }, { extra: [1] }),
    plain,
  )
  const response = await fetch(`${feed.url}/xrpc/${getFeedSkeleton}?limit=1&limit=x`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request({ viewerDid: viewer })),
  })
  assert.equal(((await response.json()) as { feed: unknown[] }).feed.length, 20)
})

test('an empty cursor means the first page', async () => {
  assert.deepEqual(await feed.skeleton({}, { cursor: '' }), await feed.skeleton())
})

for (const method of [getFeed, getFeedSkeleton]) {
  test(`a failure of the store is a 500 of ${method} that shows nothing of it`, async () => {
    const { status, body, text, headers } = await broken.ask(method)
    assert.deepEqual([status, body.error], [500, 'InternalError'])
    assert.doesNotMatch(text, /entries|sql|table/i)
    assert.equal(headers.get('access-control-allow-origin'), '*')
  })
}

test('output that does not fit its lexicon is a 500 and is not sent', async () => {
  const strict = loadLexicons()
  const view = strict.getDefOrThrow('org.impact.feed.defs#activityView', ['object'])
  view.required = [...(view.required ?? []), 'image']
  await using service = await TestFeed.start({ lexicons: strict })
  await service.index.follow(viewer, alice)
  await service.index.entry({ did: alice })
  const { status, body } = await service.ask(getFeed)
  assert.deepEqual([status, body.error, body.feed], [500, 'InternalError', undefined])
  assert.equal((await service.ask(getFeedSkeleton)).status, 200)
})

function ask(params: object, fields: object = {}): object {
  return request({ viewerDid: viewer, ...params }, fields)
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, i) => did(`evaluator${i}x`))
}

function openSocket(service = feed): Socket & Disposable {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
  return Object.assign(socket, { [Symbol.dispose]: () => void socket.destroy() })
}

function head(length: string): string {
  return `POST /xrpc/${getFeed} HTTP/1.1\r\nhost: feed\r\ncontent-type: application/json\r\n${length}\r\n\r\n`
}

async function answerOn(socket: Socket): Promise<string> {
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(socket, 'close')
  return text
}
