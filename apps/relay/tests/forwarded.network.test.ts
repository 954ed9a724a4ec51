import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { operate, untilHost } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const both = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const front = await startTestRelay({ plcUrl: plc.url, sources: [host.host, both.host] })
const hostname = new URL(front.url).host
const behind = await startTestRelay({
  plcUrl: plc.url,
  sources: [both.host],
  allowedPrivateHosts: [host.host, both.host, hostname],
})
const added = await operate(behind, 'addHost', { input: { hostname, kind: 'relay' } })
after(async () => {
  await behind[Symbol.asyncDispose]()
  await front[Symbol.asyncDispose]()
  await host.stop()
  await both.stop()
  await plc.stop()
})

function statuses(reader: FirehoseReader, did: string): string[] {
  return reader.frames
    .filter(({ t, body }) => t === '#account' && body['did'] === did)
    .map(({ body }) => (body['active'] === true ? 'active' : String(body['status'])))
}

test('another relay is added as such, and is not asked whether it is a PDS', async () => {
  assert.deepEqual(added, { status: 200, body: { hostname, added: true } })
  await untilHost(behind, hostname, ({ state }) => state === 'connected')
})

test('a relay behind another passes on what accounts of any host write, and their states once their hosts confirm them', async () => {
  using reader = new FirehoseReader(behind.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', { title: 'one' }, 'one')
  await reader.until(() => reader.opsOf(account.did).length === 1)
  account.setStatus('deactivated')
  await reader.until(() => statuses(reader, account.did).at(-1) === 'deactivated')
  account.setStatus(undefined)
  await reader.until(() => statuses(reader, account.did).at(-1) === 'active')

  // What the relay in front decided for itself is not what the account's host says.
  await front.accounts.setLocalStatus(account.did as Did, 'takendown') // of a real directory
  await eventually(async () => (await behind.refused('unconfirmed-status')) > 0)
  using direct = new FirehoseReader(front.url, 0)
  await front.accounts.setLocalStatus(account.did as Did, undefined) // of a real directory
  // It says the account's state again, which has what was written by then.
  await direct.until(() => direct.frames.some(({ t, body }) => t === '#sync' && body['did'] === account.did))
  account.create('org.impact.collection', { title: 'two' }, 'two')
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.ok(!statuses(reader, account.did).includes('takendown'))
})

test("what a relay says of an account while the account's host does not answer counts when it does", async () => {
  using reader = new FirehoseReader(behind.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', { title: 'one' }, 'one')
  await reader.until(() => reader.opsOf(account.did).length === 1)
  for (const method of ['getRepoStatus', 'getRepo', 'getRecord'])
    host.answers.set(`com.atproto.sync.${method}`, (_, response) => response.writeHead(503).end())
  const refused = await behind.refused('unconfirmed-status')
  account.setStatus('deactivated')
  await eventually(async () => (await behind.refused('unconfirmed-status')) > refused)
  assert.deepEqual(statuses(reader, account.did), ['active'])
  host.answers.clear()
  await reader.until(() => statuses(reader, account.did).at(-1) === 'deactivated')
})

test('a host that is read directly wins over what a relay forwards of it', async () => {
  using reader = new FirehoseReader(behind.url, 0)
  const account = await both.createAccount()
  const refused = await behind.refused('direct-source')
  account.create('org.impact.collection', { title: 'one' }, 'one')
  account.create('org.impact.collection', { title: 'two' }, 'two')
  await reader.until(() => reader.opsOf(account.did).length === 2)
  await eventually(async () => (await behind.refused('direct-source')) >= refused + 4)
  assert.deepEqual(
    reader.opsOf(account.did).map(({ rkey }) => rkey),
    ['one', 'two'],
  )
})

test('a ban holds for what a relay forwards of a host, too, and what it left out is made up for when it is lifted', async () => {
  using reader = new FirehoseReader(behind.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', { title: 'one' }, 'one')
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const domain = host.host.split(':')[0]
  await operate(behind, 'putDomainBan', { input: { domain } })
  const refused = await behind.refused('host-banned')
  account.create('org.impact.collection', { title: 'two' }, 'two')
  await eventually(async () => (await behind.refused('host-banned')) > refused)
  await operate(behind, 'deleteDomainBan', { input: { domain } })
  const did: string = account.did
  await reader.until(({ frames }) => frames.some(({ t, body }) => t === '#sync' && body['did'] === did))
  account.create('org.impact.collection', { title: 'three' }, 'three')
  await reader.until(() => reader.opsOf(account.did).some(({ rkey }) => rkey === 'three'))
  assert.ok(!reader.opsOf(account.did).some(({ rkey }) => rkey === 'two'))
})
