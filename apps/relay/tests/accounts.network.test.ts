import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { decode } from '@atcute/cbor'
import { encodeFrame, type Did } from '@tributary/protocol'
import { eventually, inTime, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import { WebSocket } from 'ws'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = await startFailingDirectory(plc.url)
const { failing } = directory
const host = await startScriptedHost({ plcUrl: plc.url })
const elsewhere = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const relay = await startTestRelay({
  plcUrl: directory.url,
  sources: [host.host, elsewhere.host],
  identityWaitSeconds: 1,
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await elsewhere.stop()
  directory.close()
  await plc.stop()
})

/** Events of an account, as `type` or `#account status`, in the order in which they came. */
function told(reader: FirehoseReader, { did }: ScriptedAccount): string[] {
  return reader.frames
    .filter(({ body }) => body['did'] === did || body['repo'] === did)
    .map(({ t = '', body }) =>
      t === '#account' ? `${t} ${body['active'] === true ? 'active' : String(body['status'])}` : t,
    )
}

async function answer(method: string, query: Record<string, string>): Promise<Record<string, unknown>> {
  const url = `${relay.url}/xrpc/com.atproto.sync.${method}?${new URLSearchParams(query).toString()}`
  return (await (await fetch(url)).json()) as Record<string, unknown> // XRPC answers are objects
}

/** An account whose first commit has passed. */
async function writingAccount(reader: FirehoseReader, home = host): Promise<ScriptedAccount> {
  const account = await home.createAccount()
  account.create('org.impact.collection', { title: 'first' }, 'first')
  await reader.until(() => reader.opsOf(account.did).length === 1)
  return account
}

test('a takedown is announced and hides what the account wrote from every reader; lifting it brings that and the current state back', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  const did = account.did as Did // of a real directory
  await relay.accounts.setLocalStatus(did, 'takendown')
  await reader.until(() => told(reader, account).at(-1) === '#account takendown')
  const refused = await relay.refused('account-excluded')
  account.create('org.impact.collection', { title: 'unseen' }, 'unseen')
  await eventually(async () => (await relay.refused('account-excluded')) > refused)
  assert.equal((await answer('getLatestCommit', { did: account.did }))['error'], 'RepoTakendown')
  assert.equal((await answer('getRepo', { did: account.did }))['error'], 'RepoTakendown')
  assert.deepEqual(
    await answer('getRepoStatus', { did: account.did }).then(({ active, status }) => ({ active, status })),
    {
      active: false,
      status: 'takendown',
    },
  )
  // The host's word is kept apart: what is passed on is ours.
  account.setStatus('deactivated')
  account.setStatus(undefined)
  const takedowns = (): number => told(reader, account).filter((each) => each === '#account takendown').length
  await reader.until(() => takedowns() === 3)
  assert.deepEqual(told(reader, account).slice(-2), ['#account takendown', '#account takendown'])
  const marker = await writingAccount(reader)
  using during = new FirehoseReader(relay.url, 0)
  await during.until(() => during.opsOf(marker.did).length === 1)
  assert.deepEqual(
    [...new Set(told(during, account))],
    ['#identity', '#account active', '#account takendown'],
  )

  await relay.accounts.setLocalStatus(did, undefined)
  await reader.until(() => told(reader, account).at(-1) === '#sync')
  assert.equal(told(reader, account).at(-2), '#account active')
  assert.equal(reader.frames.findLast(({ body }) => body['did'] === account.did)?.body['rev'], account.rev)
  using replaying = new FirehoseReader(relay.url, 0)
  await replaying.until(() => replaying.opsOf(account.did).length === 1)
  account.create('org.impact.collection', { title: 'after' }, 'after')
  await reader.until(() => reader.opsOf(account.did).length === 2)
  const unknown = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // of the right form
  assert.equal(await relay.accounts.setLocalStatus(unknown, 'takendown'), undefined)
})

test('commits of an inactive account are dropped, unless its host says that it is back', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  account.setStatus('deactivated')
  await reader.until(() => told(reader, account).at(-1) === '#account deactivated')
  const refused = await relay.refused('account-inactive')
  account.create('org.impact.collection', { title: 'dropped' }, 'dropped')
  await eventually(async () => (await relay.refused('account-inactive')) > refused)
  account.setStatus(undefined)
  account.announceSync()
  account.create('org.impact.collection', { title: 'back' }, 'back')
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.deepEqual(told(reader, account).slice(-3), ['#account active', '#sync', '#commit'])

  const missed = await writingAccount(reader)
  // Whenever its host is asked: who was told otherwise does not ask again for a while.
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) =>
    response.writeHead(200).end(JSON.stringify({ did: missed.did, active: true })),
  )
  missed.setStatus('deactivated')
  await reader.until(() => told(reader, missed).at(-1) === '#account deactivated')
  missed.create('org.impact.collection', { title: 'seen' }, 'seen')
  await reader.until(() => reader.opsOf(missed.did).length === 2)
  host.answers.delete('com.atproto.sync.getRepoStatus')
  assert.deepEqual(told(reader, missed).slice(-3), ['#account deactivated', '#account active', '#commit'])
})

test('an account that is back is found out when its commits are made up for, though its host does not say so', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  // The host is asked at the first commit, and not again so soon.
  for (const rkey of ['asked', 'not-asked']) {
    host.emit('#account', { did: account.did, active: false, status: 'deactivated' })
    await reader.until(() => told(reader, account).at(-1) === '#account deactivated')
    account.create('org.impact.collection', { title: rkey }, rkey)
    await reader.until(() => told(reader, account).slice(-2).includes('#account active'))
  }
  await reader.until(() => told(reader, account).at(-1) === '#sync')
  assert.deepEqual(told(reader, account).slice(-3), ['#account deactivated', '#account active', '#sync'])
})

test('a #sync never moves an account back, and repeats its state only after it was away', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  const repeated = await relay.repeated('sync')
  account.announceSync()
  await eventually(async () => (await relay.repeated('sync')) > repeated)
  account.setStatus('suspended')
  account.setStatus(undefined)
  account.announceSync()
  await reader.until(() => told(reader, account).at(-1) === '#sync')
  const { rev } = await answer('getLatestCommit', { did: account.did })
  assert.equal(rev, account.rev)
})

test('fields that nobody knows survive, and a status in no known form does not', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  host.emit('#account', { did: account.did, active: true, status: 'desynchronized', extra: { a: [1] } })
  host.emit('#account', { did: account.did, active: false, status: 'No Such Status!', extra: { a: [2] } })
  host.emit('#identity', { did: account.did, handle: 'somebody.else.test', extra: 3 })
  await reader.until(() => told(reader, account).at(-1) === '#identity')
  const bodies = reader.frames.filter(({ body }) => body['extra'] !== undefined).map(({ body }) => body)
  assert.deepEqual(
    bodies.map(({ active, status, handle, extra }) => ({ active, status, handle, extra })),
    [
      { active: true, status: 'desynchronized', handle: undefined, extra: { a: [1] } },
      { active: false, status: undefined, handle: undefined, extra: { a: [2] } },
      { active: undefined, status: undefined, handle: undefined, extra: 3 },
    ],
  )
})

test('after a move the new host is heard, and what the old one says late changes nothing', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  await account.moveTo(elsewhere)
  account.announce()
  account.create('org.impact.collection', { title: 'there' }, 'there')
  // Events may have been lost on the way.
  await reader.until(() => reader.opsOf(account.did).length === 2 && told(reader, account).includes('#sync'))
  const refused = await relay.refused('wrong-host')
  host.emit('#account', { did: account.did, active: false, status: 'deactivated' })
  await eventually(async () => (await relay.refused('wrong-host')) > refused)
  // Nor when nobody can say for now whose host it is.
  const unread = await relay.refused('identity-unavailable')
  failing.add(account.did)
  host.emit('#account', { did: account.did, active: false, status: 'deleted' })
  await eventually(async () => (await relay.refused('identity-unavailable')) > unread)
  failing.delete(account.did)
  assert.equal((await answer('getRepoStatus', { did: account.did }))['active'], true)
  account.create('org.impact.collection', { title: 'still there' }, 'still')
  await reader.until(() => reader.opsOf(account.did).length === 3)
  // Nothing was missed by what was left out, so nothing has to be made up for.
  await writingAccount(reader)
  assert.deepEqual(told(reader, account).slice(-2), ['#commit', '#commit'])
})

test('an #identity or #account of more than 16 kB is refused, whoever sends it', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  const refused = await relay.refused('oversize')
  const padding = 'x'.repeat(17_000)
  host.emit('#identity', { did: account.did, padding })
  host.emit('#account', { did: account.did, active: true, padding })
  elsewhere.emit('#identity', { did: account.did, padding })
  await eventually(async () => (await relay.refused('oversize')) === refused + 3)
  account.create('org.impact.collection', { title: 'next' }, 'next')
  await reader.until(() => reader.opsOf(account.did).length === 2)
})

test('a lenient relay lets hosts from before Sync 1.1 pass and counts what it let through', async () => {
  await using lenient = await startTestRelay({ plcUrl: plc.url, sources: [host.host], validation: 'lenient' })
  using strictly = new FirehoseReader(relay.url, 0)
  using leniently = new FirehoseReader(lenient.url, 0)
  const account = await writingAccount(strictly)
  const other = await elsewhere.createAccount()
  const refused = await relay.refused('missing-prev-data')
  host.emitHostile('missing-prev-data', account, other)
  host.emitHostile('broken-signature', account, other)
  await eventually(async () => (await relay.refused('missing-prev-data')) > refused)
  await leniently.until(() => leniently.opsOf(account.did).length === 2)
  const text = await (await fetch(`${lenient.url}/metrics`)).text()
  assert.match(text, /relay_events_waived_total\{[^}]*missing-prev-data[^}]*\} [1-9]/)
  assert.equal(strictly.opsOf(account.did).length, 1)
  await eventually(async () => (await lenient.refused('bad-signature')) > 0)
})

test('other framings carry the same messages, chosen in the order of the consumer', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  await writingAccount(reader)
  const count = reader.frames.length
  for (const protocol of ['xrpc.v1.json', 'xrpc.v1.cbor'] as const) {
    const socket = new WebSocket(
      `${relay.url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`,
      [protocol, 'xrpc.v0.cbor'],
    )
    const objects: Record<string, unknown>[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    socket.on('message', (data: Buffer, isBinary) => {
      assert.equal(isBinary, protocol === 'xrpc.v1.cbor')
      objects.push((isBinary ? decode(data) : JSON.parse(data.toString())) as Record<string, unknown>) // an envelope
      if (objects.length === count) resolve()
    })
    await inTime(promise, () => `${objects.length} of ${count}`)
    assert.equal(socket.protocol, protocol)
    socket.terminate()
    const hidden = new Set(['$type'])
    for (const [i, { $type, payload }] of objects.entries()) {
      assert.equal($type, 'message')
      const { t, body } = reader.frames[i] ?? {}
      const fields = payload as Record<string, unknown> // checked against the frame
      assert.equal(fields['$type'], `com.atproto.sync.subscribeRepos${t}`)
      const rest = Object.fromEntries(Object.entries(fields).filter(([key]) => !hidden.has(key)))
      assert.deepEqual(JSON.parse(JSON.stringify(rest)), JSON.parse(JSON.stringify(body)))
    }
  }
  const socket = new WebSocket(
    `${relay.url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=${2 ** 50}`,
    ['xrpc.v1.json'],
  )
  const [message, code] = await new Promise<[string, number]>((resolve) => {
    let text = ''
    socket.on('message', (data: Buffer) => (text = data.toString()))
    socket.on('close', (closeCode) => resolve([text, closeCode]))
  })
  assert.match(message, /^\{"\$type":"error","error":"FutureCursor"/)
  assert.equal(code, 1008)
})

test('accounts are listed by collection, page by page, and a repository is found at its host', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const accounts = await Promise.all([1, 2, 3].map(() => writingAccount(reader)))
  for (const account of accounts) account.create('org.impact.listed', { n: 1 }, 'one')
  const gone = accounts[0]
  assert.ok(gone)
  const list = async (limit: string): Promise<string[]> => {
    const found: string[] = []
    for (let cursor: string | undefined; ;) {
      const body = await answer('listReposByCollection', {
        collection: 'org.impact.listed',
        limit,
        ...(cursor ? { cursor } : {}),
      })
      // The relay does not check its own lists.
      loadLexicons().assertValidXrpcOutput('com.atproto.sync.listReposByCollection', body)
      found.push(...(body['repos'] as { did: string }[]).map(({ did }) => did))
      cursor = body['cursor'] as string | undefined // as the lexicon has it
      if (!cursor) return found
    }
  }
  await eventually(async () => (await list('10')).length === 3)
  assert.deepEqual(await list('1'), accounts.map(({ did }) => did).toSorted())
  gone.setStatus('deleted')
  await eventually(async () => (await list('2')).length === 2)

  const url = `${relay.url}/xrpc/com.atproto.sync.getRepo?did=${accounts[1]?.did}`
  const redirect = await fetch(url, { redirect: 'manual' })
  assert.equal(redirect.status, 302)
  assert.equal(
    redirect.headers.get('location'),
    `${host.url}/xrpc/com.atproto.sync.getRepo?did=${accounts[1]?.did}`,
  )
  assert.equal((await fetch(url)).status, 200)
  assert.equal(
    (await answer('getRepo', { did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' }))['error'],
    'RepoNotFound',
  )
})

test('the same #identity within seconds passes once', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader)
  const body = { did: account.did, time: new Date().toISOString() }
  const identities = () => told(reader, account).filter((type) => type === '#identity').length
  const before = identities()
  const refused = await relay.refused('repeated')
  for (let i = 0; i < 3; i++) host.emitMessage(encodeFrame('#identity', { seq: host.lastSeq + 1, ...body }))
  await eventually(async () => (await relay.refused('repeated')) === refused + 2)
  await reader.until(() => identities() === before + 1)
})
