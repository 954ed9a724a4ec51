import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually, hostileKinds, startPlc, startScriptedHost, type HostileKind } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const elsewhere = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const relay = await startTestRelay({
  plcUrl: plc.url,
  sources: [host.host],
  allowedPrivateHosts: [host.host, elsewhere.host],
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await elsewhere.stop()
  await plc.stop()
})

/** The reason that fits each kind of hostile message. A message over the size limit has a test of its own. */
const reasons: Record<Exclude<HostileKind, 'oversized-message'>, string> = {
  'random-bytes': 'malformed-frame',
  'empty-message': 'malformed-frame',
  'header-only': 'malformed-frame',
  truncated: 'malformed-frame',
  'trailing-object': 'malformed-frame',
  'deep-nesting': 'malformed-frame',
  'missing-fields': 'malformed-event',
  'foreign-account': 'wrong-host',
  'foreign-signature': 'bad-signature',
  'broken-signature': 'bad-signature',
  'high-s-signature': 'bad-signature',
  'short-signature': 'bad-signature',
  'other-did-in-commit': 'mismatched-fields',
  'old-version': 'malformed-commit',
  'rev-mismatch': 'mismatched-fields',
  'rev-not-a-tid': 'malformed-event',
  'stale-rev': 'rev-not-increasing',
  'future-rev': 'future-rev',
  'other-commit-link': 'mismatched-fields',
  'too-big-flag': 'deprecated-flag',
  'no-blocks': 'malformed-car',
  'blocks-too-large': 'oversize',
  'broken-car': 'malformed-car',
  'other-root': 'malformed-commit',
  'missing-commit-block': 'malformed-car',
  'missing-tree-block': 'missing-block',
  'missing-record-block': 'missing-block',
  'wrong-block-hash': 'bad-block-hash',
  'not-inverting': 'invalid-mst',
  'other-prev-data': 'invalid-mst',
  'missing-prev-data': 'missing-prev-data',
  'too-many-ops': 'oversize',
  'duplicate-path': 'invalid-ops',
  'invalid-path': 'invalid-ops',
  'unknown-action': 'invalid-ops',
  'create-with-prev': 'invalid-ops',
  'update-without-prev': 'missing-op-prev',
  'delete-with-cid': 'invalid-ops',
  'other-record-link': 'missing-block',
}

test('every kind of hostile message is refused for its reason, and the next good event of another account is delivered', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const other = await elsewhere.createAccount()
  const good = await host.createAccount()
  const verdicts: Partial<Record<HostileKind, string>> = {}
  const refusedBefore = new Map<string, number>()
  for (const reason of new Set(Object.values(reasons))) refusedBefore.set(reason, await relay.refused(reason))
  for (const kind of hostileKinds) {
    if (kind === 'oversized-message') continue
    // An account of its own for each, since a lane may wait for a fresh key before it refuses.
    const account = await host.createAccount()
    account.create('org.impact.collection', { title: 'first' })
    await reader.until(() => reader.opsOf(account.did).length === 1)
    host.emitHostile(kind, account, other)
    const { rkey } = good.create('org.impact.collection', { title: kind }, `after-${kind}`) as {
      rkey?: string
    }
    await reader.until(() => reader.opsOf(good.did).some((op) => op.rkey === (rkey ?? `after-${kind}`)))
    const reason = reasons[kind]
    const wanted = (refusedBefore.get(reason) ?? 0) + 1
    await eventually(async () => (await relay.refused(reason)) >= wanted)
    refusedBefore.set(reason, wanted)
    verdicts[kind] = reason
    assert.equal(reader.opsOf(account.did).length, 1, `${kind} did not pass`)
  }
  assert.deepEqual(verdicts, reasons)
  assert.equal(reader.opsOf(other.did).length, 0)
})

test('a message over the size limit is refused unread, and its host is stuck there while others flow', async () => {
  const hostile = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.6' })
  await using own = await startTestRelay({ plcUrl: plc.url, sources: [hostile.host, host.host] })
  using reader = new FirehoseReader(own.url, 0)
  const account = await hostile.createAccount()
  hostile.emitHostile('oversized-message', account, account)
  const status = async () =>
    (
      (await (
        await fetch(`${own.url}/xrpc/com.atproto.sync.getHostStatus?hostname=${hostile.host}`)
      ).json()) as { status: string }
    ).status
  await eventually(async () => (await status()) === 'offline', status)
  assert.ok((await own.refused('oversize')) >= 2)
  const good = await host.createAccount()
  good.create('org.impact.collection', { title: 'good' })
  await reader.until(() => reader.opsOf(good.did).length === 1)
  assert.equal(reader.opsOf(account.did).length, 0)
  await hostile.stop()
})

test('a key that was rotated without a word is found by itself', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', { title: 'old key' })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  await account.rotateKey()
  account.create('org.impact.collection', { title: 'new key' })
  account.create('org.impact.collection', { title: 'new key again' })
  await reader.until(() => reader.opsOf(account.did).length === 3)
  const revs = reader.frames
    .filter(({ t, body }) => t === '#commit' && body['repo'] === account.did)
    .map(({ body }) => String(body['rev']))
  assert.deepEqual(revs, revs.toSorted())
})

test('what was signed with the old key after the new one came into use is refused, however close it comes', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', {}, 'before')
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const old = account.signer
  await account.rotateKey()
  const { signer } = account
  const refused = await relay.refused('bad-signature')
  account.create('org.impact.collection', {}, 'renewed')
  account.signer = old
  account.create('org.impact.collection', {}, 'outdated')
  account.signer = signer
  account.announceIdentity()
  const told = (): number =>
    reader.frames.filter(({ t, body }) => t === '#identity' && body['did'] === account.did).length
  await reader.until(() => told() === 2)
  assert.deepEqual(
    reader.opsOf(account.did).map(({ rkey }) => rkey),
    ['before', 'renewed'],
  )
  assert.ok((await relay.refused('bad-signature')) > refused)
})

test('a message with the number of the one before it is refused', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const refused = await relay.refused('seq-not-increasing')
  const seq = account.announceIdentity()
  host.emit('#account', { did: account.did, active: false, status: 'deactivated', seq })
  account.create('org.impact.collection', {})
  await reader.until(() => reader.opsOf(account.did).length === 1)
  assert.equal(await relay.refused('seq-not-increasing'), refused + 1)
})

test('an account that cannot be resolved holds up no other', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const gone = await host.createAccount({ announce: false })
  await gone.tombstone()
  const good = await host.createAccount()
  gone.create('org.impact.collection', { title: 'nobody' })
  good.create('org.impact.collection', { title: 'somebody' })
  await reader.until(() => reader.opsOf(good.did).length === 1)
  assert.equal(reader.opsOf(gone.did).length, 0)
})

test('a source that numbers its events anew is read again from its oldest, and nothing comes twice', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', { title: 'before' })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  host.restartNumbering()
  account.create('org.impact.collection', { title: 'after' })
  await reader.until(() => reader.opsOf(account.did).length === 2)
})
