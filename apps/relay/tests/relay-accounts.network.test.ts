import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ComAtprotoSyncSubscribeRepos } from '@atcute/atproto'
import { FirehoseSubscription } from '@atcute/firehose'
import { IdResolver } from '@atproto/identity'
import { Firehose as SyncFirehose, MemoryRunner } from '@atproto/sync'
import { Firehose as SkywareFirehose } from '@skyware/firehose'
import type { Did } from '@tributary/protocol'
import {
  eventually,
  inTime,
  migrateAccount,
  rotateSigningKey,
  sampleRecord,
  startNetwork,
} from '@tributary/testkit'
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

test('unmodified clients see the same operations as ours', async () => {
  const account = await network.createAccount({ pds: 0 })
  const records = 5
  const seen: Record<string, string[]> = { ours: [], sync: [], skyware: [], atcute: [] }
  const service = relay.url.replace('http', 'ws')
  const done = {
    sync: Promise.withResolvers<void>(),
    skyware: Promise.withResolvers<void>(),
    atcute: Promise.withResolvers<void>(),
  }
  const note = (client: keyof typeof done, path: string): void => {
    if (seen[client]?.push(path) === records) done[client].resolve()
  }
  const sync = new SyncFirehose({
    service,
    idResolver: new IdResolver({ plcUrl: network.plcUrl, fetch }),
    runner: new MemoryRunner({ startCursor: 0 }),
    handleEvent(event) {
      if (event.event === 'create' && event.did === account.did)
        note('sync', `${event.collection}/${event.rkey} ${event.cid.toString()}`)
    },
    onError: done.sync.reject,
  })
  void sync.start()
  const skyware = new SkywareFirehose({ relay: service, cursor: '0' })
  skyware.on('commit', (commit) => {
    if (commit.repo !== account.did) return
    for (const op of commit.ops) if (op.action === 'create') note('skyware', `${op.path} ${op.cid}`)
  })
  skyware.start()
  const atcute = new FirehoseSubscription({
    service,
    nsid: ComAtprotoSyncSubscribeRepos.mainSchema,
    params: { cursor: 0 },
  })
  const atcuteDone = (async () => {
    for await (const message of atcute) {
      if (!('ops' in message)) continue
      if (message.repo !== account.did) continue
      for (const op of message.ops) note('atcute', `${op.path} ${op.cid?.$link}`)
      if (seen['atcute']?.length === records) return
    }
  })()
  using reader = new FirehoseReader(relay.url, 0)
  for (let i = 0; i < records; i++)
    await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === records)
  await inTime(Promise.all([done.sync.promise, done.skyware.promise, atcuteDone]), () => seen)
  skyware.close()
  await sync.destroy()
  const ours = reader.opsOf(account.did).map(({ collection, rkey, cid }) => `${collection}/${rkey} ${cid}`)
  assert.deepEqual({ ...seen, ours }, { ours, sync: ours, skyware: ours, atcute: ours })
})

test('the strictest client accepts records, identities, keys, takedowns and deletion of an account', async () => {
  const account = await network.createAccount({ pds: 0 })
  const seen: string[] = []
  const errors: Error[] = []
  const [pds] = network.pds
  assert.ok(pds)
  const did = account.did as Did // of a real PDS
  const isSeen = (what: string, behind?: string): Promise<void> =>
    eventually(
      () => seen.includes(behind ?? what) && seen.lastIndexOf(what) > seen.indexOf(behind ?? ''),
      () => ({ seen, errors }),
    )
  const sync = new SyncFirehose({
    service: relay.url.replace('http', 'ws'),
    idResolver: new IdResolver({ plcUrl: network.plcUrl, fetch }),
    runner: new MemoryRunner({ startCursor: 0 }),
    handleEvent(event) {
      if (event.did !== account.did) return
      if (event.event === 'account') seen.push(`account ${event.status ?? 'active'}`)
      else if (event.event === 'identity' || event.event === 'sync') seen.push(event.event)
      else seen.push(`${event.event} ${event.collection}`)
    },
    onError: (error) => errors.push(error),
  })
  void sync.start()
  const collection = 'org.impact.collection'
  const { uri } = await account.create(collection, sampleRecord(collection))
  const rkey = uri.slice(uri.lastIndexOf('/') + 1)
  await account.put(collection, rkey, { ...sampleRecord(collection), createdAt: new Date(0).toISOString() })
  await account.delete(collection, rkey)
  await account.updateHandle(account.handle.replace(/^./, 'y'))
  await account.deactivate()
  await account.activate()
  // It checks what came before with the key of before.
  await isSeen('account active', 'account deactivated')
  await rotateSigningKey(account)
  await account.create('com.example.signed', { with: 'a new key' })
  // What has not been delivered when an account is taken down is hidden with the rest.
  await isSeen('create com.example.signed')
  await pds.takedown(account.did)
  await isSeen('account takendown')
  await pds.takedown(account.did, false)
  await isSeen('account active', 'account takendown')
  await relay.accounts.setLocalStatus(did, 'suspended')
  await account.create('com.example.unheard', {})
  await eventually(async () => (await relay.refused('account-excluded')) > 0)
  await relay.accounts.setLocalStatus(did, undefined)
  await isSeen('sync', 'account suspended')
  await account.create('com.example.last', { text: 'x' })
  await isSeen('create com.example.last')
  await pds.deleteAccount(did)
  await isSeen('account deleted')
  await sync.destroy()
  assert.deepEqual(errors, [])
  const wanted = [
    `create ${collection}`,
    `update ${collection}`,
    `delete ${collection}`,
    'identity',
    'account deactivated',
    'account active',
    'create com.example.signed',
    'account takendown',
    'account active',
    'account suspended',
    'account active',
    'sync',
    'create com.example.last',
    'account deleted',
  ]
  let at = -1
  for (const each of wanted) assert.ok((at = seen.indexOf(each, at + 1)) >= 0, `${each} in ${seen.join()}`)
})

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
