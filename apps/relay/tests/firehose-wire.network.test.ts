import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { decode } from '@atcute/cbor'
import { decodeFrame } from '@tributary/protocol'
import { eventually, inTime, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { FirehoseReader } from './firehose-reader.ts'
import { operate, untilHost } from './operator-client.ts'
import { startTestRelay, type TestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const settings = { plcUrl: plc.url, sources: [host.host], sourceEventsPerSecond: 100_000 }
const relay = await startTestRelay({ ...settings, logRetentionBytes: 16_000_000 })
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await plc.stop()
})

const path = '/xrpc/com.atproto.sync.subscribeRepos'
const firehose = ({ url }: { url: string }, cursor: number | string, protocols: string[] = []) =>
  new WebSocket(`${url.replace('http', 'ws')}${path}?cursor=${cursor}`, protocols)

/** Status and error of what comes back for a request, sent as it is. */
async function ask(requestLine: string, headers: string[] = upgrade): Promise<[number, string]> {
  const socket = connect(Number(new URL(relay.url).port), '127.0.0.1')
  socket.write(`${[requestLine, 'Host: x', ...headers].join('\r\n')}\r\n\r\n`)
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  const [head = '', body = ''] = text.split('\r\n\r\n')
  const { error, message } = JSON.parse(body) as { error: string; message: string } // as XRPC has it
  assert.ok(message.length > 0)
  return [Number(head.split(' ')[1]), error]
}

const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
const version = 'Sec-WebSocket-Version: 13'
const handshake = ['Upgrade: websocket', 'Connection: Upgrade']
const upgrade = [...handshake, key, version]

/** Commits of some size, so that they fill sockets and files. The first has passed before the others are sent. */
async function writeMuch(account: ScriptedAccount, megabytes: number, reader: FirehoseReader): Promise<void> {
  const before = reader.opsOf(account.did).length
  for (let n = 0; n <= megabytes * 5; n++) {
    account.create('org.impact.collection', { n, text: 'x'.repeat(200_000) })
    if (n === 0) await reader.until(() => reader.opsOf(account.did).length > before)
  }
  await reader.until(() => reader.opsOf(account.did).length > before + megabytes * 5)
}

test('every request that cannot become a stream is told why', async () => {
  for (const cursor of ['', '-1', 'x', '1.5', '1e3', '0x10', '+1', '9007199254740993', '9'.repeat(6000)])
    assert.deepEqual(await ask(`GET ${path}?cursor=${cursor} HTTP/1.1`), [400, 'InvalidRequest'])
  assert.deepEqual(await ask(`GET ${path}?cursor=1&cursor=2 HTTP/1.1`), [400, 'InvalidRequest'])
  assert.deepEqual(await ask(`GET ${path}?x=${'a'.repeat(100_000)} HTTP/1.1`), [431, 'InvalidRequest'])
  assert.deepEqual(await ask(`GET ${path} HTTP/1.1`, [...handshake, version]), [400, 'InvalidRequest'])
  assert.deepEqual(await ask(`GET ${path} HTTP/1.1`, [...handshake, key]), [400, 'InvalidRequest'])
  const close = ['Connection: close']
  assert.deepEqual(await ask(`GET ${path} HTTP/1.1`, close), [426, 'UpgradeRequired'])
  assert.deepEqual(await ask(`POST ${path} HTTP/1.1`, close), [405, 'MethodNotAllowed'])
  assert.deepEqual(await ask(`POST ${path} HTTP/1.1`), [405, 'MethodNotAllowed'])
  assert.deepEqual(await ask(`GET /xrpc/com.example.other HTTP/1.1`, close), [501, 'MethodNotImplemented'])
  assert.deepEqual(await ask('GET', []), [400, 'InvalidRequest'])
})

test('what a consumer sends is ignored until it is a flood, and nobody else notices', async () => {
  using other = new FirehoseReader(relay.url, 0)
  const socket = firehose(relay, 0)
  const messages: Buffer[] = []
  socket.on('message', (data: Buffer) => messages.push(data))
  await once(socket, 'open')
  socket.send('hello')
  socket.send(Buffer.alloc(1000))
  const pong = once(socket, 'pong')
  socket.ping('there?')
  assert.equal(String((await pong)[0]), 'there?')
  const account = await host.createAccount()
  await other.until(() => other.frames.length === 3)
  await eventually(() => messages.length >= 3)
  const closed = once(socket, 'close')
  for (let n = 0; n < 12_000; n++) socket.ping()
  const [code, reason] = (await closed) as [number, Buffer]
  assert.deepEqual([code, reason.toString()], [1008, 'TooManyMessages'])
  assert.equal(decodeFrame(messages.at(-1) ?? Buffer.alloc(0)).body['error'], 'TooManyMessages')
  const large = firehose(relay, 0)
  await once(large, 'open')
  const ended = once(large, 'close')
  large.send(Buffer.alloc(10_000_000))
  await ended
  account.create('org.impact.collection', { n: 1 })
  await other.until(() => other.opsOf(account.did).length === 1)
})

test('a request that is larger than any method needs is refused before it is kept', async () => {
  const crawl = `${relay.url}/xrpc/com.atproto.sync.requestCrawl`
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ hostname: 'x'.repeat(17_000) })
  assert.equal((await fetch(crawl, { method: 'POST', headers, body })).status, 413)
  assert.equal((await fetch(`${relay.url}/_health`, { headers: { long: 'x'.repeat(17_000) } })).status, 431)
})

/** Messages of a connection until it is closed, or until there are so many. */
async function messagesOf(socket: WebSocket, count: number): Promise<{ messages: Buffer[]; code?: number }> {
  const messages: Buffer[] = []
  const { promise, resolve } = Promise.withResolvers<{ messages: Buffer[]; code?: number }>()
  socket.on('message', (data: Buffer) => {
    if (messages.push(data) === count) resolve({ messages })
  })
  socket.on('close', (code) => resolve({ messages, code }))
  return await inTime(promise, () => `${messages.length} messages`)
}

test('a consumer that left the window, or is behind for long, learns how far it was, and later that events are gone', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  await reader.until(() => reader.frames.some(({ body }) => body['did'] === account.did))
  const slow = firehose(relay, 0)
  await once(slow, 'open')
  slow.pause()
  await writeMuch(account, 20, reader)
  const oldestSeq = async (): Promise<number> =>
    Number((await operate(relay, 'getLogState')).body['oldestSeq'])
  const unread = reader.seqs.at(-1) ?? 0
  // Files go when the next one is begun and the state of their accounts is stored, so it takes a few more.
  while ((await oldestSeq()) <= unread) await writeMuch(account, 8, reader)
  const all = messagesOf(slow, Infinity)
  slow.resume()
  const { messages, code } = await all
  assert.equal(code, 1008)
  const last = decodeFrame(messages.at(-1) ?? Buffer.alloc(0)).body
  assert.equal(last['error'], 'ConsumerTooSlow')
  const [, lag, cursor] = /(\d+) events behind; resume with cursor=(\d+)/.exec(String(last['message'])) ?? []
  assert.equal(Number(lag) + Number(cursor), reader.seqs.at(-1))
  assert.equal(decodeFrame(messages.at(-2) ?? Buffer.alloc(0)).body['seq'], Number(cursor))

  const name = { name: 'OutdatedCursor' }
  const decoded = async (protocol: string, at: number | string, count: number) => {
    const socket = firehose(relay, at, protocol === '' ? [] : [protocol])
    const { messages: found, ...closed } = await messagesOf(socket, count)
    socket.terminate()
    const objects = found.map((data) =>
      protocol === 'xrpc.v1.json' ? JSON.parse(data.toString()) : decode(data),
    )
    return { objects: objects as Record<string, Record<string, unknown>>[], ...closed } // envelopes
  }
  const outdated = firehose(relay, Number(cursor))
  const [info, next] = (await messagesOf(outdated, 2)).messages.map((data) => decodeFrame(data))
  outdated.terminate()
  assert.deepEqual([info?.t, info?.body['name']], ['#info', 'OutdatedCursor'])
  // Whoever has read all that is gone missed nothing.
  const gone = Number(/up to (\d+) are/.exec(String(info?.body['message']))?.[1])
  const whole = firehose(relay, gone)
  const [first] = (await messagesOf(whole, 1)).messages.map((data) => decodeFrame(data))
  whole.terminate()
  assert.equal(first?.body['seq'], next?.body['seq'])
  for (const protocol of ['xrpc.v1.json', 'xrpc.v1.cbor']) {
    const { objects } = await decoded(protocol, Number(cursor), 2)
    const [first, second] = objects
    assert.equal(first?.['payload']?.['$type'], 'com.atproto.sync.subscribeRepos#info')
    assert.equal(first['payload']['name'], name.name)
    assert.equal(second?.['payload']?.['seq'], next?.body['seq'])
    const ahead = await decoded(protocol, 2 ** 50, Infinity)
    assert.equal(ahead.code, 1008)
    assert.deepEqual(
      [ahead.objects.length, ahead.objects[0]?.['$type'], ahead.objects[0]?.['error']],
      [1, 'error', 'FutureCursor'],
    )
  }
})

test('a consumer that falls behind the limit of lag is ended with it', async () => {
  // A host of its own, so that no other relay has to read all of this.
  await using chatty = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
  await using limited = await startTestRelay({ ...settings, sources: [chatty.host], consumerLagMax: 20 })
  const slow = firehose(limited, 0)
  await once(slow, 'open')
  slow.pause()
  const account = await chatty.createAccount()
  // So that nothing waits for its document.
  await untilHost(limited, chatty.host, ({ cursor }) => cursor === chatty.lastSeq)
  const all = messagesOf(slow, Infinity)
  for (let n = 0; n < 120; n++) account.create('org.impact.collection', { n, text: 'x'.repeat(200_000) })
  const states = async (): Promise<string[]> => {
    const { body } = await operate(limited, 'listConsumers')
    return (body['consumers'] as { state: string }[]).map(({ state }) => state) // as its lexicon says
  }
  await eventually(async () => (await states()).includes('closed'), states)
  // It has five seconds to read why.
  slow.resume()
  const { messages, code } = await all
  assert.equal(code, 1008)
  const { error, message } = decodeFrame(messages.at(-1) ?? Buffer.alloc(0)).body
  assert.equal(error, 'ConsumerTooSlow')
  assert.match(String(message), /^More than 20 events behind; \d+ events behind; resume with cursor=\d+$/)
})

/** A consumer whose proxy says that it has this address. @returns `open`, or how it was refused. */
async function connectAs({ url }: TestRelay, address: string, open: WebSocket[]) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos`, {
    headers: { 'x-forwarded-for': address },
  })
  open.push(socket)
  socket.on('error', () => undefined)
  return await new Promise((resolve) => {
    socket.on('open', () => resolve('open'))
    socket.on('unexpected-response', (_, response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const { error } = JSON.parse(Buffer.concat(chunks).toString()) as { error: string } // an XRPC error
        resolve([response.statusCode, error, Number(response.headers['retry-after']) > 0])
      })
    })
  })
}

test('consumers of a whole IPv6 /48 together give way to others', async () => {
  await using limited = await startTestRelay({ ...settings, consumersMax: 3, trustedProxies: ['127.0.0.1'] })
  const open: WebSocket[] = []
  for (const address of [
    '2001:db8:0:1::1',
    '2001:db8:0:2::1',
    '2001:db8:0:3::1',
    '192.0.2.1',
    '2001:db8:1::1',
  ])
    assert.equal(await connectAs(limited, address, open), 'open')
  const refused = [429, 'RateLimitExceeded', true]
  assert.deepEqual(await connectAs(limited, '2001:db8:0:4::1', open), refused)
  for (const socket of open) socket.terminate()
})

test('consumers over the limit, in all or of one address, are answered 429 before the handshake, until one leaves', async () => {
  const limits = { consumersMax: 3, consumersPerAddressMax: 2, trustedProxies: ['127.0.0.1'] }
  await using limited = await startTestRelay({ ...settings, ...limits })
  const open: WebSocket[] = []
  const connect = async (address: string) => await connectAs(limited, address, open)
  const refused = [429, 'RateLimitExceeded', true]
  assert.deepEqual([await connect('192.0.2.1'), await connect('192.0.2.1')], ['open', 'open'])
  assert.deepEqual(await connect('192.0.2.1'), refused)
  assert.equal(await connect('192.0.2.2'), 'open')
  assert.deepEqual(await connect('192.0.2.2'), refused)
  // Whose address has most gives way to one that has none, and its first consumer stays.
  const messages: Buffer[] = []
  open[1]?.on('message', (data: Buffer) => messages.push(data))
  const ended = open[1] && once(open[1], 'close')
  assert.equal(await connect('192.0.2.3'), 'open')
  assert.equal((await ended)?.[0], 1013)
  const { error, message } = decodeFrame(messages.at(-1) ?? Buffer.alloc(0)).body
  assert.equal(error, 'TooManyConsumers')
  assert.match(String(message), /^All places are taken, .*; resume with cursor=\d+$/)
  assert.deepEqual(await connect('192.0.2.4'), refused)
  const { consumers } = (await operate(limited, 'listConsumers')).body as {
    consumers: { lagSeconds: number }[]
  }
  assert.deepEqual(
    consumers.map(({ lagSeconds }) => lagSeconds),
    [0, 0, 0],
  )
  open[0]?.terminate()
  await eventually(async () => (await connect('192.0.2.1')) === 'open')
  for (const socket of open) socket.terminate()
})
