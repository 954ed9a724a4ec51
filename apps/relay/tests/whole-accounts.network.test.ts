import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import {
  commitBody,
  eventually,
  startPlc,
  startScriptedHost,
  type ScriptedAccount,
  type ScriptedHost,
} from '@tributary/testkit'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { startTestRelay, type TestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = await startFailingDirectory(plc.url)
const host = await startScriptedHost({ plcUrl: plc.url })
const silent = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const elsewhere = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.6' })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-whole-'))
const settings = {
  plcUrl: directory.url,
  sources: [host.host, silent.host],
  allowedPrivateHosts: [host.host, silent.host, elsewhere.host],
  identityWaitSeconds: 1,
  sourceEventsPerSecond: 10_000,
}
after(async () => {
  await host.stop()
  await silent.stop()
  await elsewhere.stop()
  directory.close()
  await plc.stop()
  rmSync(dataDirectory, { recursive: true, force: true })
})
const collection = 'org.impact.collection'

const framesOf = (reader: FirehoseReader, { did }: ScriptedAccount, type: string) =>
  reader.frames.filter(({ t, body }) => t === type && (body['did'] === did || body['repo'] === did))

const known = async (relay: TestRelay, { did }: ScriptedAccount) =>
  (await operate(relay, 'getAccount', { query: { did } })).body

const asksAbout = (home: ScriptedHost, { did }: ScriptedAccount, method: string): number =>
  home.requests.filter((path) => path.includes(`${method}?`) && path.includes(encodeURIComponent(did))).length

/** Accounts of a host that miss a commit each, because their documents could not be read in time. */
async function markedAccounts(
  relay: TestRelay,
  home: ScriptedHost,
  count: number,
): Promise<ScriptedAccount[]> {
  const creating = Array.from({ length: count }, () => home.createAccount({ announce: false }))
  const accounts = await Promise.all(creating)
  const before = await relay.refused('identity-unavailable')
  for (const { did } of accounts) directory.failing.add(did)
  for (const account of accounts) account.create(collection, { n: 1 })
  await eventually(async () => (await relay.refused('identity-unavailable')) >= before + count)
  for (const { did } of accounts) directory.failing.delete(did)
  return accounts
}

test('sixteen accounts of a silent host do not keep the account of another host waiting', async () => {
  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  const hung = ['getRecord', 'getRepo', 'getRepoStatus'].map((method) => `com.atproto.sync.${method}`)
  for (const method of hung) silent.answers.set(method, () => {})
  await markedAccounts(relay, silent, 16)
  await eventually(() => silent.requests.some((path) => path.includes('getRecord')))
  const [account] = await markedAccounts(relay, host, 1)
  assert.ok(account)
  const startedMs = performance.now()
  await reader.until(() => framesOf(reader, account, '#sync').length === 1)
  assert.ok(performance.now() - startedMs < 20_000)
  silent.answers.clear()
})

test('an account that was made whole is fetched once, and a later one again', async () => {
  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  const [first] = await markedAccounts(relay, host, 1)
  assert.ok(first)
  await reader.until(() => framesOf(reader, first, '#sync').length === 1)
  // It takes longer to make another one whole than to ask for the first again.
  const [second] = await markedAccounts(relay, host, 1)
  assert.ok(second)
  await reader.until(() => framesOf(reader, second, '#sync').length === 1)
  assert.deepEqual([asksAbout(host, first, 'getRepo'), asksAbout(host, second, 'getRepo')], [1, 1])
  assert.equal(framesOf(reader, first, '#sync').length, 1)
  assert.equal((await known(relay, first))['isIncomplete'], false)
})

test('a repository stays marked until it was fetched, over a restart too', async () => {
  const kept = { ...settings, dataDirectory }
  const methods = ['getRecord', 'getRepo'].map((method) => `com.atproto.sync.${method}`)
  for (const method of methods) host.answers.set(method, (_, response) => response.writeHead(503).end())
  let account: ScriptedAccount
  {
    await using relay = await startTestRelay(kept)
    using reader = new FirehoseReader(relay.url, 0)
    account = await host.createAccount()
    await reader.until(() => framesOf(reader, account, '#commit').length === 1)
    directory.failing.add(account.did)
    account.announceIdentity()
    const refused = await relay.refused('identity-unavailable')
    account.create(collection, { n: 1 })
    await eventually(async () => (await relay.refused('identity-unavailable')) > refused)
    directory.failing.delete(account.did)
    assert.equal((await known(relay, account))['isIncomplete'], true)
  }
  await using relay = await startTestRelay(kept)
  using reader = new FirehoseReader(relay.url, 0)
  await eventually(() => asksAbout(host, account, 'getRecord') > 0)
  assert.equal((await known(relay, account))['isIncomplete'], true)
  host.answers.clear()
  await reader.until(() => framesOf(reader, account, '#sync').at(-1)?.body['rev'] === account.rev)
  assert.equal((await known(relay, account))['isIncomplete'], false)
})

test('the host of an account that the operator left out is not asked for it', async () => {
  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  const method = 'com.atproto.sync.getRecord'
  host.answers.set(method, (_, response) => response.writeHead(503).end())
  const account = await host.createAccount()
  await reader.until(() => framesOf(reader, account, '#commit').length === 1)
  directory.failing.add(account.did)
  account.announceIdentity()
  account.create(collection, { n: 1 })
  await eventually(async () => (await known(relay, account))['isIncomplete'] === true)
  directory.failing.delete(account.did)
  await relay.accounts.setLocalStatus(account.did as Did, 'takendown') // of a real directory
  const asked = asksAbout(host, account, 'getRecord')
  const [other] = await markedAccounts(relay, host, 1)
  host.answers.delete(method)
  assert.ok(other)
  await reader.until(() => framesOf(reader, other, '#sync').length === 1)
  assert.equal(asksAbout(host, account, 'getRecord'), asked)
  assert.equal(asksAbout(host, account, 'getRepo'), 0)
})

test('a host that gives an older commit, or says now this and now that, moves no account back', async () => {
  await using relay = await startTestRelay(settings)
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
  await eventually(() => asksAbout(host, account, 'getRepo') >= 3)
  assert.deepEqual(
    [(await known(relay, account))['rev'], framesOf(reader, account, '#sync').length],
    [rev, 0],
  )

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
  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const did = account.did as Did // of a real directory
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(did).length === 1)
  await account.moveTo(elsewhere)
  await relay.accounts.setLocalStatus(did, 'takendown')
  const before = elsewhere.requests.length
  await relay.accounts.setLocalStatus(did, undefined)
  const read = await markedAccounts(relay, host, 1)
  await reader.until(() => read.every((each) => framesOf(reader, each, '#sync').length === 1))
  assert.equal(elsewhere.requests.length, before)
  assert.equal((await known(relay, account))['isIncomplete'], true)
  assert.equal(framesOf(reader, account, '#sync').length, 0)
})

test('nothing that was being verified when a takedown came is logged after it', async () => {
  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  await reader.until(() => framesOf(reader, account, '#commit').length === 1)
  const count = 2000
  const bodies = Array.from({ length: count }, (_, n) =>
    commitBody(account.commit([{ action: 'create', collection, rkey: `r${n}`, record: { n } }])),
  )
  for (const body of bodies) host.emit('#commit', body)
  await reader.until(() => reader.opsOf(account.did).length > 0)
  await relay.accounts.setLocalStatus(account.did as Did, 'takendown') // of a real directory
  await eventually(async () => (await relay.refused('account-excluded')) > 0)
  const marker = await host.createAccount()
  await reader.until(() => framesOf(reader, marker, '#commit').length === 1)
  const types = reader.frames
    .filter(({ body }) => body['did'] === account.did || body['repo'] === account.did)
    .map(({ t }) => t)
  assert.equal(types.at(-1), '#account')
  assert.ok(types.length < count, 'the takedown came after everything')
})
