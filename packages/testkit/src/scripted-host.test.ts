import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { decodeFirst } from '@atcute/cbor'
import { verifyRepoCar } from '@atproto/repo'
import { IdResolver } from '@atproto/identity'
import { Firehose, MemoryRunner } from '@atproto/sync'
import type { Event } from '@atproto/sync'
import { WebSocket } from 'ws'
import { callQuery, fetchBytes, hostileKinds, inTime, startPlc, startScriptedHost } from './index.ts'
import type { ListedRepo, ScriptedHost } from './index.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const elsewhere = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
after(async () => {
  await host.stop()
  await elsewhere.stop()
  await plc.stop()
})

function decodeMessage(message: Uint8Array): { type: string; body: Record<string, unknown> } {
  const [header, rest] = decodeFirst(message)
  const [body] = decodeFirst(rest)
  return { type: header.op === -1 ? 'error' : header.t, body }
}

/** Reads `count` messages of a host's stream. */
async function read(
  from: ScriptedHost,
  cursor: number,
  count: number,
): Promise<ReturnType<typeof decodeMessage>[]> {
  const url = `ws://${from.host}/xrpc/com.atproto.sync.subscribeRepos?cursor=${cursor}`
  const socket = new WebSocket(url)
  const messages: ReturnType<typeof decodeMessage>[] = []
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.on('error', reject)
  socket.on('message', (data: Buffer) => {
    messages.push(decodeMessage(data))
    if (messages.length === count) resolve()
  })
  await inTime(promise, () => messages)
  socket.terminate()
  return messages.slice(0, count)
}

test('a client that verifies everything accepts what the accounts of a host emit', async () => {
  const lastSeq = host.lastSeq
  const account = await host.createAccount()
  const created = account.create('app.attested.graph.follow', { subject: account.did }, 'one')
  account.update('app.attested.graph.follow', 'one', { subject: account.did, more: true })
  account.delete('app.attested.graph.follow', 'one')
  const seen: string[] = []
  const done = Promise.withResolvers<void>()
  const runner = new MemoryRunner({ startCursor: lastSeq })
  const firehose = new Firehose({
    service: `ws://${host.host}`,
    idResolver: new IdResolver({ plcUrl: plc.url, fetch }),
    runner,
    handleEvent(event: Event) {
      seen.push('rkey' in event ? `${event.event} ${event.rkey}` : event.event)
      if (event.event === 'delete') done.resolve()
    },
    onError: done.reject,
  })
  void firehose.start()
  await inTime(done.promise, () => seen)
  await firehose.destroy()
  assert.deepEqual(seen, ['identity', 'account', 'sync', 'create one', 'update one', 'delete one'])
  assert.equal(created.seq, lastSeq + 5)
})

test('a reader gets what came after its cursor, then what is emitted later', async () => {
  const account = await host.createAccount()
  const first = account.create('a.b.c', {}, 'x')
  const connected = host.nextConnection()
  const reading = read(host, first.seq - 1, 2)
  const connection = await connected
  assert.equal(connection.cursor, first.seq - 1)
  account.delete('a.b.c', 'x')
  const messages = await reading
  assert.deepEqual(
    messages.map(({ body }) => body['seq']),
    [first.seq, first.seq + 1],
  )
  await connection.closed
})

test('cursors outside of what a host holds are answered as a PDS answers them', async () => {
  await using own = await startScriptedHost({ plcUrl: plc.url })
  const account = await own.createAccount()
  const [error] = await read(own, 1000, 1)
  assert.deepEqual([error?.type, error?.body['error']], ['error', 'FutureCursor'])
  own.forgetThrough(2)
  account.announceIdentity()
  const messages = await read(own, 1, 3)
  assert.deepEqual(
    messages.map(({ type, body }) => [type, body['seq']]),
    [
      ['#info', undefined],
      ['#commit', 3],
      ['#sync', 4],
    ],
  )
  own.restartNumbering()
  assert.equal(account.announceIdentity(), 1)
  own.skipTo(100)
  assert.equal(account.announceIdentity(), 100)
})

test('a host answers about its accounts, and their repositories verify', async () => {
  await using own = await startScriptedHost({ plcUrl: plc.url })
  const account = await own.createAccount()
  const gone = await own.createAccount()
  account.create('a.b.c', { n: 1 }, 'x')
  gone.setStatus('takendown')
  const first = await callQuery<{ repos: ListedRepo[]; cursor?: string }>(
    own.url,
    'com.atproto.sync.listRepos',
    { params: { limit: 1 } },
  )
  const second = await callQuery<typeof first>(own.url, 'com.atproto.sync.listRepos', {
    params: { cursor: first.cursor },
  })
  assert.deepEqual(
    [...first.repos, ...second.repos].map(({ did }) => did),
    [account.did, gone.did].toSorted(),
  )
  assert.equal(second.cursor, undefined)
  const params = { did: account.did }
  const car = await fetchBytes(own.url, 'com.atproto.sync.getRepo', { params })
  const { creates } = await verifyRepoCar(car, account.did, account.signer.did())
  assert.equal(creates.length, 1)
  const status = await callQuery(own.url, 'com.atproto.sync.getRepoStatus', { params })
  assert.deepEqual(status, { did: account.did, active: true, rev: account.rev })
  const taken = { params: { did: gone.did } }
  await assert.rejects(fetchBytes(own.url, 'com.atproto.sync.getRepo', taken), { error: 'RepoTakendown' })
  own.answers.set('com.atproto.sync.getRepo', (_, response) =>
    response.writeHead(429, { 'retry-after': '7' }).end(),
  )
  await assert.rejects(fetchBytes(own.url, 'com.atproto.sync.getRepo', { params }), { status: 429 })
  assert.ok(own.requests.includes(`/xrpc/com.atproto.sync.getRepo?did=${encodeURIComponent(account.did)}`))
})

test('an account rotates its key, moves to another host and is tombstoned', async () => {
  const account = await host.createAccount()
  const resolver = new IdResolver({ plcUrl: plc.url, fetch })
  await account.rotateKey()
  assert.equal(await resolver.did.resolveAtprotoKey(account.did, true), account.signer.did())
  await account.moveTo(elsewhere)
  assert.equal((await resolver.did.resolveAtprotoData(account.did, true)).pds, elsewhere.url)
  assert.equal(account.create('a.b.c', {}).seq, elsewhere.lastSeq)
  await account.tombstone()
  assert.equal(await resolver.did.resolve(account.did, true), null)
})

test('a stopped host comes back with its events; a refused subscription gets its status', async () => {
  await using own = await startScriptedHost({ plcUrl: plc.url })
  const account = await own.createAccount()
  await own.stop()
  account.announceIdentity()
  await own.start()
  assert.equal((await read(own, 4, 1))[0]?.body['seq'], 5)
  own.refuseWithStatus = 503
  await assert.rejects(read(own, 0, 1), /503/)
})

test('hostile messages take their place in the stream and leave the account alone', async () => {
  const account = await host.createAccount()
  const other = await elsewhere.createAccount()
  const { rev } = account
  for (const kind of hostileKinds) {
    const lastSeq = host.lastSeq
    assert.equal(host.emitHostile(kind, account, other), lastSeq + 1)
  }
  assert.equal(account.rev, rev)
})

test('a reader can be sent broken framing, pinged and closed', async () => {
  const connected = host.nextConnection()
  const socket = new WebSocket(`ws://${host.host}/xrpc/com.atproto.sync.subscribeRepos`)
  const connection = await connected
  await once(socket, 'open')
  await connection.ping()
  const failed = once(socket, 'error')
  connection.writeRaw(Uint8Array.of(0xff, 0xff, 0xff))
  await failed
  await connection.closed
})
