/** Readers of Jetstream v2 use the stream under the names that they know. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, inTime, startPlc, startScriptedHost } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { EventReader } from './event-reader.ts'
import { apiKey, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'
const jetstream = 'network.bsky.jetstream'

type Message = { $type: string; payload: Record<string, unknown> & { $type: string; seq?: number } }

/** What a reader of Jetstream gets, until it has as many messages as it waits for. */
async function read({ url }: TestStream, query: string, count: number): Promise<Message[]> {
  const messages: Message[] = []
  const socket = new WebSocket(`${url.replace('http', 'ws')}/xrpc/${jetstream}.subscribeEvents?${query}`)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.on('error', reject)
  socket.on('message', (data: Buffer) => {
    messages.push(JSON.parse(data.toString()) as Message) // shapes are asserted below
    if (messages.length === count) resolve()
  })
  await inTime(promise, () => messages)
  socket.terminate()
  return messages
}

test('live and replayed events are those of our own method under the name of Jetstream', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using stream = await startTestStream({ relayUrl: host.url.replace('http', 'ws'), plcUrl: plc.url })
  const account = await host.createAccount()
  account.create(follow, { text: 'x'.repeat(70_000) }, 'large')
  using own = await EventReader.open(stream.url, { cursor: 0 })
  await own.until(() => own.messages.length === 4)
  await stream.seal()
  const reading = read(stream, 'cursor=0', 6)
  const filtered = read(stream, `cursor=1&kinds=commit&collections=${follow}&maxMessageSizeBytes=1000`, 2)
  for (const rkey of ['a', 'b']) account.create(follow, { rkey }, rkey)
  await own.until(() => own.messages.length === 6)
  const renamed = own.messages.map((payload) => ({
    $type: 'message',
    payload: { ...payload, $type: payload.$type.replace('network.social.stream', jetstream) },
  }))
  assert.deepEqual(await reading, renamed)
  assert.deepEqual(await filtered, renamed.slice(4))
  // A cursor that is ahead is no reason for a notice there.
  const live = read(stream, 'cursor=1000', 1)
  await eventually(async () => (await stream.metric('stream_subscribers')) === 2)
  account.create(follow, {}, 'c')
  const [message] = await live
  assert.deepEqual(
    [message?.$type, message?.payload.$type, message?.payload['rkey']],
    ['message', `${jetstream}.subscribeEvents#commit`, 'c'],
  )
})

test('the archive answers under both names, and needs a key under both', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const settings = { relayUrl: host.url.replace('http', 'ws'), plcUrl: plc.url }
  await using stream = await startTestStream(settings)
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  using reader = await EventReader.open(stream.url, { cursor: 0 })
  await reader.until(() => reader.messages.length === 4)
  await stream.seal()
  const headers = { Authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const ask = async (prefix: string, path: string, init: RequestInit = { headers }): Promise<unknown[]> => {
    const response = await fetch(`${stream.url}/xrpc/${prefix}.${path}`, init)
    return [response.status, response.headers.get('etag'), await response.text()]
  }
  const requests: [string, RequestInit?][] = [
    ['planSnapshot', { method: 'POST', headers, body: '{}' }],
    ['getSegment?name=seg_0000000000.jss'],
    ['getBlock?segment=seg_0000000000.jss&blockIndex=0'],
    ['listSegments'],
  ]
  for (const [path, init] of requests) {
    const answer = await ask(jetstream, path, init)
    assert.equal(answer[0], 200)
    assert.deepEqual(answer, await ask('network.social.stream', path, init))
    const { headers: _, ...bare } = init ?? {}
    const unauthenticated = { ...bare, headers: { 'content-type': 'application/json' } }
    assert.equal((await ask(jetstream, path, unauthenticated))[0], 401)
  }
  assert.equal((await ask(jetstream, 'listSegments?limit=5000'))[0], 200)
  assert.equal((await ask(jetstream, 'listSegments?limit=0'))[0], 400)
  assert.equal((await ask('network.social.stream', 'listSegments?limit=5000'))[0], 400)
})

test('without the setting only our own names are answered', async () => {
  await using stream = await startTestStream({ compat: 'off' })
  const status = async (path: string): Promise<number> =>
    (await fetch(`${stream.url}/xrpc/${jetstream}.${path}`)).status
  assert.deepEqual(
    [await status('listSegments'), await status('subscribeEvents'), await status('getZstdDictionary')],
    [501, 501, 501],
  )
})

test('an error is told as Jetstream tells it', async () => {
  let reading
  {
    await using stream = await startTestStream({})
    reading = read(stream, '', 1)
    await eventually(async () => (await stream.metric('stream_subscribers')) === 1)
  }
  const [error] = await reading
  assert.deepEqual({ ...error, message: '' }, { $type: 'error', error: 'ServiceRestart', message: '' })
})
