import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { migrateAccount, rotateSigningKey, sampleRecord, startNetwork } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const network = await startNetwork({ pds: 2 })
const relay = await startTestRelay({
  plcUrl: network.plcUrl,
  sources: network.pds.map(({ host }) => host),
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await network.stop()
})

async function answer(method: string, query: Record<string, string> = {}): Promise<Record<string, unknown>> {
  const response = await fetch(`${relay.url}/xrpc/${method}?${new URLSearchParams(query).toString()}`)
  return (await response.json()) as Record<string, unknown> // XRPC answers are objects
}

test('a handle change, deactivation, reactivation, takedown and deletion pass, and the state follows', async () => {
  const account = await network.createAccount({ pds: 1 })
  const pds = account.pds
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  using reader = new FirehoseReader(relay.url, 0)
  const handle = account.handle.replace(/^./, 'z')
  await account.updateHandle(handle)
  await account.deactivate()
  await account.activate()
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.equal((await answer('com.atproto.sync.getRepoStatus', { did: account.did }))['active'], true)
  await pds.takedown(account.did)
  const statuses = () =>
    reader.frames
      .filter(({ t, body }) => t === '#account' && body['did'] === account.did)
      .map(({ body }) => body['status'] ?? 'active')
  await reader.until(() => statuses().length === 4)
  assert.equal(
    (await answer('com.atproto.sync.getLatestCommit', { did: account.did }))['error'],
    'RepoTakendown',
  )
  await pds.takedown(account.did, false)
  // A PDS forgets all earlier events of an account that it deletes, also those that it has not sent yet.
  await reader.until(() => statuses().length === 5)
  await pds.deleteAccount(account.did)
  await reader.until(() => statuses().length === 6)
  assert.deepEqual(statuses(), ['active', 'deactivated', 'active', 'takendown', 'active', 'deleted'])
  const handles = reader.frames
    .filter(({ t, body }) => t === '#identity' && body['did'] === account.did)
    .map(({ body }) => body['handle'])
  assert.ok(handles.includes(handle))
  const { active, status } = await answer('com.atproto.sync.getRepoStatus', { did: account.did })
  assert.deepEqual({ active, status }, { active: false, status: 'deleted' })
})

test('an account that moves to another PDS goes on in order, and what the old one still says does not count', async () => {
  const account = await network.createAccount({ pds: 0 })
  using reader = new FirehoseReader(relay.url, 0)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const [, target] = network.pds
  assert.ok(target)
  await migrateAccount(account, target)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.deepEqual(reader.opsOf(account.did), account.journal)
  const { active, rev } = await answer('com.atproto.sync.getRepoStatus', { did: account.did })
  assert.equal(active, true)
  assert.equal(
    rev,
    reader.frames.findLast(({ t, body }) => t === '#commit' && body['repo'] === account.did)?.body['rev'],
  )
})

test('after the key of an account is rotated, commits of the new key pass and those of the old one do not', async () => {
  const account = await network.createAccount({ pds: 0 })
  const { pds, did } = account
  using reader = new FirehoseReader(relay.url, 0)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(did).length === 1)
  const oldKey = await rotateSigningKey(account)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(did).length === 2)

  const refused = await relay.refused('bad-signature')
  const newKey = pds.replaceSigningKey(did, oldKey)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'), 'forged')
  pds.replaceSigningKey(did, newKey)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'), 'last')
  await reader.until(() => reader.opsOf(did).length === 3)
  assert.equal(await relay.refused('bad-signature'), refused + 1)
  assert.equal(reader.opsOf(did).at(-1)?.rkey, 'last')
})

test('a PDS that was away is read on from where it was', async () => {
  const account = await network.createAccount({ pds: 1 })
  using reader = new FirehoseReader(relay.url, 0)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 1)
  await account.pds.stop()
  await account.pds.start()
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.deepEqual(reader.opsOf(account.did), account.journal)
})
