import assert from 'node:assert/strict'
import { once } from 'node:events'
import { cpSync, readdirSync, statSync, truncateSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decodeFrame } from '@tributary/protocol'
import {
  encodeEvent,
  eventually,
  freePort,
  inTime,
  type Plc,
  type ScriptedHost,
  startPlc,
  startScriptedHost,
} from '@tributary/testkit'
import type { Row } from '@tributary/segment'
import { WebSocket, WebSocketServer } from 'ws'
import { openStateDatabase } from '../src/state-database.ts'
import { startSlowPlc } from './slow-plc.ts'
import { startIngest, type TestIngest } from './start-ingest.ts'
import { storedRows } from './rows.ts'

const follow = 'app.attested.graph.follow'
const unwatched = 'app.unwatched.thing'

interface Fixture extends AsyncDisposable {
  plc: Plc
  host: ScriptedHost
  directory: string
  ingest(
    directory: string,
    options?: {
      saveMs?: number
      relay?: ScriptedHost
      onTakedown?: (did: string) => void
      onWindowMissed?: () => void
    },
  ): Promise<TestIngest>
}

async function startFixture(): Promise<Fixture> {
  const plc = await startPlc()
  const host = await startScriptedHost({ plcUrl: plc.url })
  const directory = await mkdtempDisposable(join(tmpdir(), 'restart-'))
  return {
    plc,
    host,
    directory: directory.path,
    ingest: (name, { relay = host, ...options } = {}) =>
      startIngest({
        directory: join(directory.path, name),
        relayUrl: relay.url,
        plcUrl: plc.url,
        ...options,
      }),
    async [Symbol.asyncDispose]() {
      await host.stop()
      await plc[Symbol.asyncDispose]()
      await directory.remove()
    },
  }
}

/** Every row there is: those in blocks, then those shown after them. */
async function allRows({ archive, rows }: TestIngest): Promise<Row[]> {
  const inBlocks = await storedRows(archive.segments)
  return [...inBlocks, ...rows.filter(({ seq }) => seq > archive.blockSeq)]
}

function keys(rows: readonly Row[]): string[] {
  return rows.map(({ kind, did, rkey, rev }) => `${kind} ${did} ${rkey} ${rev}`)
}

async function assertSameRows(ingest: TestIngest, expected: readonly string[]): Promise<void> {
  const rows = await allRows(ingest)
  assert.deepEqual(keys(rows), expected)
  for (const [i, { seq }] of rows.entries()) assert.ok(seq > (rows[i - 1]?.seq ?? 0))
}

test('after a kill the relay sends events again whose rows the log has, and each row is there once', async () => {
  await using fixture = await startFixture()
  const { host, directory } = fixture
  const account = await host.createAccount()
  for (let n = 0; n < 20; n++) account.create(n % 3 === 0 ? unwatched : follow, { n }, `k${n}`)
  account.emitWrites(
    [1, 2, 3].map((n) => ({ action: 'create', collection: follow, rkey: `m${n}`, record: {} })),
  )
  const expected = await (async () => {
    await using ingest = await fixture.ingest('data')
    await ingest.until(() => ingest.rows.length === 19)
    // Nothing was saved yet: the states know nothing, the log has everything.
    cpSync(join(directory, 'data'), join(directory, 'killed'), { recursive: true })
    return keys(ingest.rows)
  })()
  for (const name of ['killed', 'data', 'killed']) {
    await using ingest = await fixture.ingest(name)
    account.create(follow, {}, `next-${expected.length}`)
    const before = expected.length
    await ingest.until(() => ingest.rows.at(-1)?.rkey === `next-${before}`)
    const row = ingest.rows.at(-1)
    assert.ok(row)
    expected.push(...keys([row]))
    // A directory that did not see what another one took in meanwhile catches up.
    await assertSameRows(ingest, expected)
  }
})

test('rows of a kill are there once also when the relay was not to be reached before the next stop', async () => {
  await using fixture = await startFixture()
  const { host, plc, directory } = fixture
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  account.setStatus('deactivated')
  account.setStatus(undefined)
  await using silent = await startScriptedHost({ plcUrl: plc.url })
  const expected = await (async () => {
    await using ingest = await fixture.ingest('data')
    await ingest.until(() => ingest.rows.length === 6)
    cpSync(join(directory, 'data'), join(directory, 'killed'), { recursive: true })
    return keys(ingest.rows)
  })()
  {
    await using _ = await fixture.ingest('killed', { relay: silent })
  }
  await using ingest = await fixture.ingest('killed')
  account.create(follow, {}, 'b')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'b')
  await assertSameRows(ingest, [...expected, ...keys(ingest.rows.slice(-1))])
})

test('identity and account events that came after one that waits are there once, though they come again', async () => {
  await using fixture = await startFixture()
  const { host, plc, directory } = fixture
  await using slowPlc = await startSlowPlc(plc.url)
  const start = (): Promise<TestIngest> =>
    startIngest({ directory: join(directory, 'data'), relayUrl: host.url, plcUrl: slowPlc.url })
  const account = await host.createAccount()
  const waiting = await host.createAccount({ announce: false })
  slowPlc.answer(waiting.did, 503)
  waiting.create(follow, {}, 'waits')
  account.setStatus('deactivated')
  account.setStatus(undefined)
  account.announceIdentity({ handle: 'one.test' })
  account.announceIdentity({ handle: 'two.test' })
  account.create(follow, {}, 'a')
  const expected = await (async () => {
    await using ingest = await start()
    await ingest.until(() => ingest.rows.at(-1)?.rkey === 'a')
    return keys(ingest.rows)
  })()
  await using ingest = await start()
  account.create(follow, {}, 'b')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'b')
  await assertSameRows(ingest, [...expected, ...keys(ingest.rows.slice(-1))])
})

test('an event of which a stop left only some rows gets the others, once', async () => {
  await using fixture = await startFixture()
  const { host, directory } = fixture
  const account = await host.createAccount({ announce: false })
  const record = { text: 'x'.repeat(40_000) }
  const rkeys = ['a', 'b', 'c', 'd', 'e']
  account.emitWrites(rkeys.map((rkey) => ({ action: 'create', collection: follow, rkey, record })))
  {
    await using ingest = await fixture.ingest('data')
    await ingest.until(() => ingest.rows.length === 5)
    cpSync(join(directory, 'data'), join(directory, 'torn'), { recursive: true })
  }
  const log = join(directory, 'torn', 'log')
  const file = join(log, readdirSync(log).find((name) => name.endsWith('.tlog')) ?? '')
  truncateSync(file, statSync(file).size - 1)
  await using ingest = await fixture.ingest('torn')
  assert.ok(ingest.rows.length > 0 && ingest.rows.length < 5, 'a part of the event was kept')
  await ingest.until(() => ingest.rows.length === 5)
  const rows = await allRows(ingest)
  assert.deepEqual(
    rows.map(({ rkey }) => rkey),
    rkeys,
  )
})

test('the saved position never passes what is not done, and a restart reads on from it', async () => {
  await using fixture = await startFixture()
  const { host } = fixture
  const account = await host.createAccount()
  {
    await using ingest = await fixture.ingest('data', { saveMs: 1 })
    account.create(follow, {}, 'a')
    await ingest.until(() => ingest.rows.length === 4)
  }
  const connected = host.nextConnection()
  await using ingest = await fixture.ingest('data')
  assert.equal((await connected).cursor, host.lastSeq)
  account.create(unwatched, {}, 'b')
  account.create(follow, {}, 'c')
  await ingest.until(() => ingest.rows.length === 1)
  assert.equal(ingest.ingest.cursor, host.lastSeq)
  assert.equal(ingest.states.get(account.did)?.needsRefetch, false)
})

/** Sends everything that a host has sent again, under other numbers, as another relay would. */
async function copyEvents(from: ScriptedHost, to: ScriptedHost, seqOffset: number): Promise<void> {
  const socket = new WebSocket(
    `${from.url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`,
  )
  const frames: Buffer[] = []
  const complete = Promise.withResolvers<void>()
  socket.on('message', (frame: Buffer) => {
    frames.push(frame)
    if (Number(decodeFrame(frame).body['seq']) === from.lastSeq) complete.resolve()
  })
  await once(socket, 'open')
  await inTime(complete.promise, () => `${frames.length} frames of ${from.lastSeq}`)
  socket.terminate()
  for (const frame of frames) {
    const { t = '', body } = decodeFrame(frame)
    to.skipTo(Number(body['seq']) + seqOffset)
    to.emitMessage(encodeEvent(t, { ...body, seq: Number(body['seq']) + seqOffset }))
  }
}

test('another relay with the same events under other numbers is read from its oldest one, without repeats', async () => {
  await using fixture = await startFixture()
  const { host, plc } = fixture
  // The other one's numbers are lower than any that was seen here.
  host.skipTo(5000)
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  account.delete(follow, 'a')
  for (const status of ['deactivated', undefined] as const) account.setStatus(status)
  const expected = await (async () => {
    await using ingest = await fixture.ingest('data')
    await ingest.until(() => ingest.rows.length === 7)
    return keys(ingest.rows)
  })()
  await using other = await startScriptedHost({ plcUrl: plc.url })
  await copyEvents(host, other, -4900)
  const connected = other.nextConnection()
  await using ingest = await fixture.ingest('data', { relay: other })
  assert.equal((await connected).cursor, 0)
  for (const status of ['deactivated', undefined] as const) account.setStatus(status)
  const { seq } = account.create(follow, {}, 'b')
  await copyEvents(host, other, seq - 9800)
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'b')
  assert.equal(ingest.rows.length, 3)
  await assertSameRows(ingest, [...expected, ...keys(ingest.rows)])
})

test('a relay that numbers its events anew is followed from its oldest one, at most once an hour', async () => {
  await using fixture = await startFixture()
  const { host } = fixture
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  await using ingest = await fixture.ingest('data', { saveMs: 1 })
  await ingest.until(() => ingest.rows.length === 4)
  host.restartNumbering()
  account.create(follow, {}, 'b')
  await ingest.until(() => ingest.rows.length === 5)
  assert.equal(ingest.ingest.cursor, 1)
  assert.equal(ingest.rows.at(-1)?.rkey, 'b')
  // A second time within the hour it is not believed, until its numbers have passed ours.
  host.restartNumbering()
  await host.nextConnection()
  account.create(follow, {}, 'c')
  account.create(follow, {}, 'd')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'd')
})

test('every PDS is read again after another relay, or a new numbering: either may lack events of before', async () => {
  await using fixture = await startFixture()
  const { host, plc } = fixture
  const account = await host.createAccount({ announce: false })
  let missed = 0
  const options = { saveMs: 1, onWindowMissed: () => void missed++ }
  for (const rkey of ['a', 'b']) {
    account.create(follow, {}, rkey)
    await using ingest = await fixture.ingest('data', options)
    await ingest.until(() => ingest.rows.at(-1)?.rkey === rkey)
    assert.equal(missed, 0)
  }
  await using other = await startScriptedHost({ plcUrl: plc.url })
  const otherAccount = await other.createAccount({ announce: false })
  for (const rkey of ['c', 'd']) otherAccount.create(follow, {}, rkey)
  await using ingest = await fixture.ingest('data', { ...options, relay: other })
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'd')
  assert.equal(missed, 1)
  other.restartNumbering()
  otherAccount.create(follow, {}, 'e')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'e')
  assert.equal(missed, 2)
})

test('what a relay still sends on a connection that was given up is not taken for its new numbering', async () => {
  await using fixture = await startFixture()
  const letters = 'abcdefgh'
  const identityOf = (n: number, seq: number): Uint8Array => {
    const did = `did:plc:${letters.charAt(n).repeat(24)}`
    return encodeEvent('#identity', { did, seq, time: '2026-01-01T00:00:00.000Z' })
  }
  const cursors: string[] = []
  const port = await freePort()
  const relay = new WebSocketServer({ port, host: '127.0.0.1' })
  using _closing = { [Symbol.dispose]: () => relay.close() }
  relay.on('connection', (socket, request) => {
    cursors.push(request.url?.split('cursor=')[1] ?? '')
    // First the old numbering; then, whatever the cursor, what is live; and at last the new numbering from its start.
    const frames = [
      [1, 2, 3, 4, 5].map((seq) => identityOf(seq - 1, seq)),
      [2, 3].map((seq) => identityOf(4 + seq, seq)),
      [1, 2, 3].map((seq) => identityOf(4 + seq, seq)),
    ][cursors.length - 1]
    for (const frame of frames ?? []) socket.send(frame)
    if (cursors.length === 1) socket.close()
  })
  await using ingest = await startIngest({
    directory: join(fixture.directory, 'data'),
    relayUrl: `http://127.0.0.1:${port}`,
  })
  await ingest.until(() => ingest.rows.length === 8)
  assert.deepEqual(cursors, ['0', '5', '0'])
})

/** A relay that sends these numbers on its connections, one after another, and ends each but the last. */
async function startNumberedRelay(connections: readonly (readonly number[])[]) {
  const port = await freePort()
  const server = new WebSocketServer({ port, host: '127.0.0.1' })
  const cursors: string[] = []
  let sent = 0
  server.on('connection', (socket, request) => {
    const seqs = connections[cursors.push(request.url?.split('cursor=')[1] ?? '') - 1]
    for (const seq of seqs ?? []) {
      const did = `did:plc:${String.fromCodePoint(97 + sent++).repeat(24)}`
      socket.send(encodeEvent('#identity', { did, seq, time: '2026-01-01T00:00:00.000Z' }))
    }
    if (cursors.length < connections.length) socket.close()
  })
  return { url: `http://127.0.0.1:${port}`, cursors, [Symbol.dispose]: () => server.close() }
}

test('of two events with one number the second gives no row', async () => {
  await using fixture = await startFixture()
  using relay = await startNumberedRelay([[1, 2, 2, 3]])
  const directory = join(fixture.directory, 'data')
  await using ingest = await startIngest({ directory, relayUrl: relay.url })
  await ingest.until(() => ingest.rows.some(({ did }) => did.includes('dd')))
  assert.deepEqual(
    ingest.rows.map(({ did }) => did.at(-1)),
    ['a', 'b', 'd'],
  )
})

test('a relay that numbers anew twice within an hour is not read from its oldest event again', async () => {
  await using fixture = await startFixture()
  using relay = await startNumberedRelay([[1, 2, 3], [1], [1, 2], [1], []])
  const directory = join(fixture.directory, 'data')
  await using _ingest = await startIngest({ directory, relayUrl: relay.url })
  await eventually(() => relay.cursors.length === 5)
  assert.deepEqual(relay.cursors, ['0', '3', '0', '2', '2'])
})

test('a new numbering is followed though the clock was set back to before the last one began', async () => {
  await using fixture = await startFixture()
  using before = await startNumberedRelay([[1, 2, 3]])
  using after = await startNumberedRelay([[1], [1, 2]])
  const directory = join(fixture.directory, 'data')
  {
    await using ingest = await startIngest({ directory, relayUrl: before.url })
    await ingest.until(() => ingest.rows.length === 3)
  }
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  const url = after.url.replace('http', 'ws')
  database.prepare('UPDATE upstream SET epoch_began_ms = ?, relay_url = ?').run(Date.now() + 86_400_000, url)
  database.close()
  await using _ingest = await startIngest({ directory, relayUrl: after.url })
  await eventually(() => after.cursors.length >= 2)
  assert.deepEqual(after.cursors.slice(0, 2), ['3', '0'])
})

test('a takedown that was shown just before a kill is noted by the next start, whatever relay it has', async () => {
  await using fixture = await startFixture()
  const { host, plc, directory } = fixture
  const account = await host.createAccount({ announce: false })
  {
    await using ingest = await fixture.ingest('data')
    account.create(follow, {}, 'a')
    account.setStatus('takendown')
    await ingest.until(() => ingest.rows.length === 2)
    cpSync(join(directory, 'data'), join(directory, 'killed'), { recursive: true })
  }
  await using relay = await startScriptedHost({ plcUrl: plc.url })
  const takenDown: string[] = []
  await using _again = await fixture.ingest('killed', { relay, onTakedown: (did) => takenDown.push(did) })
  assert.deepEqual(takenDown, [account.did])
})
