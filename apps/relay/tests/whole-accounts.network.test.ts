import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { eventually, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = await startFailingDirectory(plc.url)
const host = await startScriptedHost({ plcUrl: plc.url })
const elsewhere = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.6' })
const relay = await startTestRelay({
  plcUrl: directory.url,
  sources: [host.host],
  allowedPrivateHosts: [host.host, elsewhere.host],
  identityWaitSeconds: 1,
  sourceEventsPerSecond: 10_000,
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await elsewhere.stop()
  directory.close()
  await plc.stop()
})
const collection = 'org.impact.collection'

const framesOf = (reader: FirehoseReader, { did }: ScriptedAccount, type: string) =>
  reader.frames.filter(({ t, body }) => t === type && (body['did'] === did || body['repo'] === did))

const known = async ({ did }: ScriptedAccount) =>
  (await operate(relay, 'getAccount', { query: { did } })).body

const asksAbout = ({ did }: ScriptedAccount, method: string): number =>
  host.requests.filter((path) => path.includes(`${method}?`) && path.includes(encodeURIComponent(did))).length

/** An account that misses a commit, because its document could not be read in time. */
async function markedAccount(): Promise<ScriptedAccount> {
  const account = await host.createAccount({ announce: false })
  const before = await relay.refused('identity-unavailable')
  directory.failing.add(account.did)
  account.create(collection, { n: 1 })
  await eventually(async () => (await relay.refused('identity-unavailable')) > before)
  directory.failing.delete(account.did)
  return account
}

test('an account that was made whole is fetched once, and a later one again', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const first = await markedAccount()
  await reader.until(() => framesOf(reader, first, '#sync').length === 1)
  // It takes longer to make another one whole than to ask for the first again.
  const second = await markedAccount()
  await reader.until(() => framesOf(reader, second, '#sync').length === 1)
  assert.deepEqual([asksAbout(first, 'getRepo'), asksAbout(second, 'getRepo')], [1, 1])
  assert.equal(framesOf(reader, first, '#sync').length, 1)
  assert.equal((await known(first))['isIncomplete'], false)
})

test('the host of an account that the operator left out is not asked for it', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const method = 'com.atproto.sync.getRecord'
  host.answers.set(method, (_, response) => response.writeHead(503).end())
  const account = await host.createAccount()
  await reader.until(() => framesOf(reader, account, '#commit').length === 1)
  directory.failing.add(account.did)
  account.announceIdentity()
  account.create(collection, { n: 1 })
  await eventually(async () => (await known(account))['isIncomplete'] === true)
  directory.failing.delete(account.did)
  await relay.accounts.setLocalStatus(account.did as Did, 'takendown') // of a real directory
  const asked = asksAbout(account, 'getRecord')
  const other = await markedAccount()
  host.answers.delete(method)
  await reader.until(() => framesOf(reader, other, '#sync').length === 1)
  assert.equal(asksAbout(account, 'getRecord'), asked)
  assert.equal(asksAbout(account, 'getRepo'), 0)
})

test('a host that gives an older commit, or says now this and now that, moves no account back', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const did = account.did as Did // of a real directory
  const old = Buffer.from(
    await (await fetch(`${host.url}/xrpc/com.atproto.sync.getRepo?did=${did}`)).arrayBuffer(),
  )
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(did).length === 1)
  const rev = account.rev
  host.answers.set('com.atproto.sync.getRepo', (_, response) => response.end(old))
  await relay.accounts.setLocalStatus(did, 'takendown')
  await relay.accounts.setLocalStatus(did, undefined)
  await eventually(() => asksAbout(account, 'getRepo') >= 3)
  assert.deepEqual([(await known(account))['rev'], framesOf(reader, account, '#sync').length], [rev, 0])

  let asked = 0
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) =>
    response.end(JSON.stringify({ did, active: ++asked % 2 === 0, status: 'deleted' })),
  )
  host.answers.set('com.atproto.sync.getRepo', (_, response) => response.writeHead(400).end('{}'))
  const told = () => framesOf(reader, account, '#account').length
  const before = told()
  // The healing hears that it is deleted; nobody asks any more, so nobody hears the contrary.
  await reader.until(() => told() > before)
  assert.equal(framesOf(reader, account, '#account').at(-1)?.body['status'], 'deleted')
  host.answers.clear()
  account.setStatus(undefined)
  await reader.until(() => framesOf(reader, account, '#sync').at(-1)?.body['rev'] === rev)
})

test('the host of an account that is no source is not heard, and the account keeps its mark', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const did = account.did as Did // of a real directory
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(did).length === 1)
  await account.moveTo(elsewhere)
  await relay.accounts.setLocalStatus(did, 'takendown')
  const before = elsewhere.requests.length
  await relay.accounts.setLocalStatus(did, undefined)
  const other = await markedAccount()
  await reader.until(() => framesOf(reader, other, '#sync').length === 1)
  assert.equal(elsewhere.requests.length, before)
  assert.equal((await known(account))['isIncomplete'], true)
  assert.equal(framesOf(reader, account, '#sync').length, 0)
})
