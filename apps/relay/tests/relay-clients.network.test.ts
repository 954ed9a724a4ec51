import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ComAtprotoSyncSubscribeRepos } from '@atcute/atproto'
import { FirehoseSubscription } from '@atcute/firehose'
import { IdResolver } from '@atproto/identity'
import { Firehose as SyncFirehose, MemoryRunner } from '@atproto/sync'
import { Firehose as SkywareFirehose } from '@skyware/firehose'
import type { Did } from '@tributary/protocol'
import { eventually, inTime, rotateSigningKey, sampleRecord, startNetwork } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const network = await startNetwork({ pds: 1 })
const relay = await startTestRelay({
  plcUrl: network.plcUrl,
  sources: network.pds.map(({ host }) => host),
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await network.stop()
})

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
