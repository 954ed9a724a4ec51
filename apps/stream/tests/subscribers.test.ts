/** Who reads the live stream, as operators see it, and how they end a connection. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { EventReader } from './event-reader.ts'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'

interface Listed {
  id: number
  state: string
  position: number
  lag: number
  filter: object
}

async function listed(stream: TestStream, page = ''): Promise<{ subscribers: Listed[]; cursor?: string }> {
  const { status, body } = await operate(stream, `listSubscribers${page}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body as unknown as { subscribers: Listed[] } // by its lexicon
}

test('subscribers are listed with position, lag and filter, page by page, and one is ended and told its cursor', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using stream = await startTestStream({ relayUrl: host.url.replace('http', 'ws'), plcUrl: plc.url })
  const account = await host.createAccount({ announce: false })
  const dids = Array.from({ length: 12 }, (_, n) => `did:web:host${n}.example.com`)
  using all = await EventReader.open(stream.url, { cursor: 0 })
  using _ = await EventReader.open(stream.url, { kinds: ['commit'], collections: [follow], dids })
  account.create(follow, {}, 'first')
  await all.until(() => all.messages.length === 1)
  const [seq = 0] = all.seqs
  const { subscribers } = await listed(stream)
  const brief = subscribers.map(({ id, state, position, lag, filter }) => [id, state, position, lag, filter])
  const none = { kinds: [], collections: [], dids: [], didCount: 0 }
  const ofSome = { kinds: ['commit'], collections: [follow], dids: dids.slice(0, 10), didCount: 12 }
  assert.deepEqual(brief, [
    [1, 'live', seq, 0, none],
    [2, 'live', seq, 0, ofSome],
  ])
  const first = await listed(stream, '?limit=1')
  const second = await listed(stream, `?limit=1&cursor=${first.cursor}`)
  assert.deepEqual(
    [first, second].map(({ subscribers: [each] }) => each?.id),
    [1, 2],
  )
  assert.equal(second.cursor, undefined)

  const request = { id: 1, actor: 'ann', idempotencyKey: 'once' }
  for (let times = 0; times < 2; times++)
    assert.deepEqual(await operate(stream, 'disconnectSubscriber', request), { status: 200, body: { id: 1 } })
  assert.equal((await all.closed).code, 1008)
  const last = all.messages.at(-1)
  assert.deepEqual(
    [last?.['error'], last?.['message']],
    ['Disconnected', `The operator ended this connection; 0 events behind; resume with cursor=${seq}`],
  )
  await eventually(async () => (await listed(stream)).subscribers.length === 1)
  const unknown = await operate(stream, 'disconnectSubscriber', { id: 1 })
  assert.deepEqual([unknown.status, unknown.body['error']], [400, 'SubscriberNotFound'])
  const { audit } = (await operate(stream, 'listAudit')).body as {
    audit: { subject: string; actor: string }[]
  } // by its lexicon
  assert.deepEqual(
    audit.map(({ subject, actor }) => [subject, actor]),
    [['subscriber 1', 'ann']],
  )
})

test('a subscriber that falls behind the limit of lag is ended with ConsumerTooSlow and its cursor', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using stream = await startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    subscriberLagMax: 20,
  })
  const account = await host.createAccount({ announce: false })
  using slow = await EventReader.open(stream.url, { cursor: 0 })
  using fast = await EventReader.open(stream.url, { cursor: 0 })
  slow.socket.pause()
  for (let n = 0; n < 40; n++) {
    account.create(follow, { note: 'x'.repeat(900_000) }, `r${n}`)
    await fast.until(() => fast.messages.length === n + 1)
  }
  const states = async (): Promise<unknown> =>
    (await listed(stream)).subscribers.map(({ id, state, lag }) => [id, state, lag])
  await eventually(
    async () => (await listed(stream)).subscribers.some(({ state }) => state === 'closed'),
    states,
  )
  slow.socket.resume()
  assert.equal((await slow.closed).code, 1008)
  const last = slow.messages.at(-1)
  assert.equal(last?.['error'], 'ConsumerTooSlow')
  assert.match(
    String(last['message']),
    /^More than 20 events behind; \d+ events behind; resume with cursor=\d+$/,
  )
  assert.equal(fast.messages.length, 40)
})
