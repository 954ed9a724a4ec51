import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { IdResolver } from '@atproto/identity'
import { verifyJwt } from '@atproto/xrpc-server'
import { firehoseClients, inTime, migrateAccount, startNetwork, XrpcCallError } from './index.ts'
import type { SeenEvent } from './index.ts'

const network = await startNetwork({ pds: 2, labeler: true })
after(() => network.stop())

// First, since they read from the start, and cannot check what accounts wrote that are gone.
for (const client of firehoseClients) {
  test(`${client.name} sees what an account on a real PDS does, from a cursor and live`, async () => {
    const account = await network.createAccount()
    const seen: SeenEvent[] = []
    const live = Promise.withResolvers<void>()
    const first = Promise.withResolvers<void>()
    const firehose = await client.open({
      url: account.pds.url.replace('http', 'ws'),
      cursor: 0,
      plcUrl: network.plcUrl,
      onEvent(event) {
        if (event.did !== account.did) return
        seen.push(event)
        if (event.what === 'sync') first.resolve()
        if (event.what.startsWith('delete')) live.resolve()
      },
      onError: live.reject,
    })
    await inTime(first.promise, () => seen)
    await account.create('a.b.c', {}, 'x')
    await account.put('a.b.c', 'x', { more: 1 })
    await account.delete('a.b.c', 'x')
    await inTime(live.promise, () => seen)
    await firehose.close()
    assert.deepEqual(
      seen.map(({ what }) => what),
      ['identity', 'account', 'sync', 'create a.b.c/x', 'update a.b.c/x', 'delete a.b.c/x'],
    )
    assert.ok(seen.every(({ seq }, index) => seq > (seen[index - 1]?.seq ?? 0)))
  })
}

test('an account writes records that its PDS lists, and its journal names them in order', async () => {
  const alice = await network.createAccount({ name: 'alice' })
  const collection = 'org.impact.claim.activity'
  const first = await alice.create(collection, { title: 'one' })
  await alice.create(collection, { title: 'two' }, 'spring')
  await alice.put(collection, 'spring', { title: 'three' })
  await alice.delete(collection, first.uri.split('/').at(-1) ?? '')
  await alice.applyWrites([
    { action: 'create', collection, rkey: 'autumn', value: { title: 'four' } },
    { action: 'delete', collection, rkey: 'spring' },
  ])

  assert.deepEqual(
    alice.journal.map(({ action, rkey }) => `${action} ${rkey}`),
    [
      `create ${first.uri.split('/').at(-1)}`,
      'create spring',
      'update spring',
      `delete ${first.uri.split('/').at(-1)}`,
      'create autumn',
      'delete spring',
    ],
  )
  const listed = await alice.listRecords(collection)
  assert.deepEqual(
    listed.map(({ cid }) => cid),
    [alice.journal[4]?.cid],
  )
  assert.deepEqual(await alice.pds.listCollections(alice.did), [collection])
  assert.ok((await alice.pds.listRepos()).some(({ did }) => did === alice.did))
})

test('a stopped PDS comes back with its data on the same address', async () => {
  const account = await network.createAccount({ pds: 1 })
  await account.create('app.attested.graph.follow', { subject: account.did }, 'a')
  const { pds } = account
  await pds.stop()
  await assert.rejects(pds.listRepos())
  await pds.start()
  await account.create('app.attested.graph.follow', { subject: account.did }, 'b')
  assert.equal((await account.listRecords('app.attested.graph.follow')).length, 2)
})

test('a blob is kept once a record names it', async () => {
  const account = await network.createAccount()
  const image = await account.uploadBlob(new Uint8Array([137, 80, 78, 71]), 'image/png')
  const { uri } = await account.create('app.attested.badge.definition', { icon: image })
  const [record] = await account.listRecords('app.attested.badge.definition')
  assert.equal(record?.uri, uri)
  assert.deepEqual(record?.value['icon'], image)
})

test('an account moves to another PDS with its records and goes on writing there', async () => {
  const account = await network.createAccount({ pds: 0 })
  await account.create('app.attested.graph.follow', { subject: account.did }, 'before')
  const [source, target] = network.pds
  assert.ok(source && target)
  await migrateAccount(account, target)
  assert.equal(account.pds, target)
  await account.create('app.attested.graph.follow', { subject: account.did }, 'after')
  assert.equal((await account.listRecords('app.attested.graph.follow')).length, 2)

  const resolver = new IdResolver({ plcUrl: network.plcUrl, fetch })
  const document = await resolver.did.resolveAtprotoData(account.did)
  assert.equal(document.pds, target.url)
  assert.equal(document.handle, account.handle)
  const left = (await source.listRepos()).find(({ did }) => did === account.did)
  assert.equal(left?.status, 'deactivated')
})

test('an account is deactivated, activated, taken down, restored and deleted', async () => {
  const account = await network.createAccount({ pds: 1 })
  const status = async () => (await account.pds.listRepos()).find(({ did }) => did === account.did)?.status
  await account.deactivate()
  assert.equal(await status(), 'deactivated')
  await account.activate()
  assert.equal(await status(), undefined)
  await account.pds.takedown(account.did)
  assert.equal(await status(), 'takendown')
  await account.pds.takedown(account.did, false)
  assert.equal(await status(), undefined)
  await account.updateHandle(`moved-${account.handle}`.slice(-18 - account.pds.handleDomain.length))
  await account.deleteAccount()
  assert.ok(!(await account.pds.listRepos()).some(({ did }) => did === account.did))
})

test('a service token verifies against the key of the account for its one method', async () => {
  const account = await network.createAccount()
  const lxm = 'org.impact.feed.getFeed'
  const token = await account.serviceAuth({ aud: 'did:web:feed.example', lxm })
  const resolver = new IdResolver({ plcUrl: network.plcUrl, fetch })
  const verified = await verifyJwt(token, 'did:web:feed.example', lxm, (did, force) =>
    resolver.did.resolveAtprotoKey(did, force),
  )
  assert.equal(verified.iss, account.did)
})

test('a label and its negation are listed, also after the labeler was restarted', async () => {
  const account = await network.createAccount()
  await network.labeler.label(account.did, 'high-quality')
  await network.labeler.stop()
  await network.labeler.start()
  await network.labeler.label(account.did, 'high-quality', { neg: true })
  const labels = await network.labeler.listLabels(account.did)
  assert.deepEqual(
    labels.map(({ val, neg }) => [val, neg]),
    [
      ['high-quality', false],
      ['high-quality', true],
    ],
  )
})

test('a refused call tells the name of its error', async () => {
  const account = await network.createAccount()
  await assert.rejects(
    account.create('app.attested.graph.follow', {}, 'not a key'),
    (error: unknown) => error instanceof XrpcCallError && error.error === 'InvalidRequest',
  )
})
