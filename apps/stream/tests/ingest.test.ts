import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  commitBody,
  eventually,
  hostileKinds,
  type Plc,
  type ScriptedHost,
  startPlc,
  startScriptedHost,
} from '@tributary/testkit'
import type { StreamSettings } from '../src/index.ts'
import { EventReader, type StreamMessage } from './event-reader.ts'
import { startSlowPlc } from './slow-plc.ts'
import { startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'
const unwatched = 'app.unwatched.thing'

type RecordOf = Record<string, string> | Uint8Array

interface Upstream extends AsyncDisposable {
  plc: Plc
  host: ScriptedHost
  /** A stream that reads the host and checks everything. */
  stream(settings?: Partial<StreamSettings>): Promise<TestStream>
}

async function startUpstream(): Promise<Upstream> {
  const plc = await startPlc()
  const host = await startScriptedHost({ plcUrl: plc.url })
  return {
    plc,
    host,
    stream: (settings) =>
      startTestStream({
        relayUrl: host.url.replace('http', 'ws'),
        plcUrl: plc.url,
        verify: 'full',
        ...settings,
      }),
    async [Symbol.asyncDispose]() {
      await host.stop()
      await plc[Symbol.asyncDispose]()
    },
  }
}

/** `create app.x/rkey` for commits, the kind for others. */
function briefly({ $type, operation, collection, rkey }: StreamMessage): string {
  const kind = $type.split('#')[1] ?? ''
  return kind === 'commit' ? `${String(operation)} ${String(collection)}/${String(rkey)}` : kind
}

test('operations on watched collections and every marker become rows, in the order of each account', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0 })
  const account = await upstream.host.createAccount()
  account.create(follow, { n: 1 }, 'a')
  account.create(unwatched, { n: 2 }, 'b')
  account.emitWrites([
    { action: 'update', collection: follow, rkey: 'a', record: { n: 3 } },
    { action: 'create', collection: unwatched, rkey: 'c', record: {} },
    { action: 'create', collection: follow, rkey: 'd', record: {} },
  ])
  account.delete(follow, 'a')
  await reader.until(() => reader.messages.length === 7)
  account.setStatus('deactivated')
  await reader.until(() => reader.messages.length === 8)
  assert.deepEqual(reader.messages.map(briefly), [
    'identity',
    'account',
    'sync',
    `create ${follow}/a`,
    `update ${follow}/a`,
    `create ${follow}/d`,
    `delete ${follow}/a`,
    'account',
  ])
  assert.equal(await stream.metric('stream_gaps_total'), 0)
})

test('what a careful reader refuses gives no row, and the next good event does', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const { host } = upstream
  const account = await host.createAccount()
  const other = await host.createAccount()
  account.create(follow, {}, 'first')
  // One that is too large ends the connection, which has a test of its own; a good commit of an account that lives
  // elsewhere is nothing that a relay may not send.
  const kinds = hostileKinds.filter((kind) => kind !== 'oversized-message' && kind !== 'foreign-account')
  for (const kind of kinds) host.emitHostile(kind, account, other)
  account.create(follow, {}, 'last')
  await reader.until(() => reader.messages.length === 2)
  assert.deepEqual(reader.messages.map(briefly), [`create ${follow}/first`, `create ${follow}/last`])
  // Some of them name another account, which has an order of its own. Some are good but for the record of their operation.
  const refused = async () =>
    (await stream.metric('stream_upstream_events_refused_total')) +
    (await stream.metric('stream_ops_dropped_total'))
  await eventually(async () => (await refused()) >= kinds.length, refused)
  assert.equal(await refused(), kinds.length)
  for (const reason of ['malformed-frame', 'bad-signature', 'invalid-mst', 'stale-rev', 'future-rev']) {
    assert.ok((await stream.metric('stream_upstream_events_refused_total', `"${reason}"`)) > 0, reason)
  }
})

for (const verify of ['full', 'off'] as const)
  test(`an operation that cannot be kept costs none of its siblings: verify=${verify}`, async () => {
    await using upstream = await startUpstream()
    await using stream = await upstream.stream({ verify })
    using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
    const { host } = upstream
    const account = await host.createAccount()
    const notRecord = Uint8Array.of(0x82)
    const create = (collection: string, rkey: string, record: RecordOf = { rkey }) =>
      ({ action: 'create', collection, rkey, record }) as const
    account.emitWrites([create(follow, 'a'), create('no-collection', 'x'), create(follow, 'b')])
    account.emitWrites([
      create(unwatched, 'x', notRecord),
      create(follow, 'c'),
      create(follow, 'd', notRecord),
    ])
    const { blocks, ...signed } = account.commit([create(unwatched, 'y'), create(follow, 'e')])
    const missing = signed.ops.find(({ path }) => path.startsWith(unwatched))?.cid ?? assert.fail()
    const left = blocks.filter(({ cid }) => Buffer.compare(cid, missing) !== 0)
    assert.equal(left.length, blocks.length - 1)
    host.emit('#commit', commitBody({ ...signed, blocks: left }))
    account.create(follow, {}, 'last')
    await reader.until(() => reader.messages.at(-1)?.['rkey'] === 'last')
    assert.deepEqual(
      reader.messages.map(({ rkey }) => rkey),
      ['a', 'b', 'c', 'e', 'last'],
    )
    assert.equal(await stream.metric('stream_ops_dropped_total', 'invalid-path'), 1)
    assert.equal(await stream.metric('stream_ops_dropped_total', 'unreadable-record'), 1)
    assert.equal(await stream.metric('stream_gaps_total'), 0)
  })

test('a message over the limit ends the connection, and reading goes on behind it once the relay forgets it', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const { host } = upstream
  const account = await host.createAccount()
  account.create(follow, {}, 'before')
  await reader.until(() => reader.messages.length === 1)
  const position = host.emitHostile('oversized-message', account, account)
  await host.nextConnection()
  host.forgetThrough(position)
  account.create(follow, {}, 'after')
  await reader.until(() => reader.messages.length === 2)
  assert.equal(await stream.metric('stream_gaps_total', 'relay'), 1)
})

test('an account whose identity is not there yet holds up nobody else, and its own events keep their order', async () => {
  await using upstream = await startUpstream()
  await using slowPlc = await startSlowPlc(upstream.plc.url)
  await using stream = await upstream.stream({ plcUrl: slowPlc.url })
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const { host } = upstream
  const [late, prompt] = [await host.createAccount({ announce: false }), await host.createAccount()]
  const asked = slowPlc.hold(late.did)
  for (const rkey of ['1', '2', '3']) late.create(follow, {}, `late-${rkey}`)
  await asked
  prompt.create(follow, {}, 'prompt-1')
  await reader.until(() => reader.messages.length === 1)
  assert.equal(await stream.metric('stream_waiting_accounts'), 1)
  late.create(follow, {}, 'late-4')
  slowPlc.release(late.did)
  await reader.until(() => reader.messages.length === 5)
  const rkeys = ['prompt-1', 'late-1', 'late-2', 'late-3', 'late-4']
  assert.deepEqual(
    reader.messages.map(briefly),
    rkeys.map((rkey) => `create ${follow}/${rkey}`),
  )
  assert.equal(await stream.metric('stream_waiting_accounts'), 0)
})

test('an #account does not make its account wait for a directory that does not answer', async () => {
  await using upstream = await startUpstream()
  await using slowPlc = await startSlowPlc(upstream.plc.url)
  await using stream = await upstream.stream({ plcUrl: slowPlc.url })
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const { host } = upstream
  const account = await host.createAccount()
  account.create(follow, {}, 'before')
  await reader.until(() => reader.messages.length === 1)
  void slowPlc.hold(account.did)
  host.emit('#account', { did: account.did, active: true })
  account.create(follow, {}, 'after')
  await reader.until(() => reader.messages.length === 2)
  slowPlc.release(account.did)
})

test('events of an account without a usable identity are refused, and those of others are not', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const { host } = upstream
  const [gone, good] = [await host.createAccount({ announce: false }), await host.createAccount()]
  await gone.tombstone()
  gone.create(follow, {}, 'gone')
  good.create(follow, {}, 'good')
  await reader.until(() => reader.messages.length === 1)
  assert.deepEqual(reader.messages.map(briefly), [`create ${follow}/good`])
  const refused = () => stream.metric('stream_upstream_events_refused_total', 'identity-unavailable')
  await eventually(async () => (await refused()) > 0)
})

test('a commit signed with a new key is accepted once the document says so, and not before', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const account = await upstream.host.createAccount()
  account.create(follow, {}, 'old-key')
  await reader.until(() => reader.messages.length === 1)
  await account.rotateKey()
  account.create(follow, {}, 'new-key')
  await reader.until(() => reader.messages.length === 2)
  assert.deepEqual(reader.messages.map(briefly), [`create ${follow}/old-key`, `create ${follow}/new-key`])
})

test('after an #identity a commit that is signed with the key from before is refused', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const account = await upstream.host.createAccount()
  account.create(follow, {}, 'first')
  await reader.until(() => reader.messages.length === 1)
  const before = account.signer
  await account.rotateKey()
  const { signer } = account
  upstream.host.emit('#identity', { did: account.did })
  account.signer = before
  account.create(follow, {}, 'forged')
  account.signer = signer
  account.create(follow, {}, 'last')
  await reader.until(() => reader.messages.length === 2)
  assert.deepEqual(reader.messages.map(briefly), [`create ${follow}/first`, `create ${follow}/last`])
})

test('a commit that does not continue what is known passes, and the repository is marked', async () => {
  await using upstream = await startUpstream()
  await using stream = await upstream.stream()
  using reader = await EventReader.open(stream.url, { cursor: 0, collections: [follow], kinds: ['commit'] })
  const { host } = upstream
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  await reader.until(() => reader.messages.length === 1)
  account.commit([{ action: 'create', collection: follow, rkey: 'never-sent', record: {} }])
  account.create(follow, {}, 'b')
  await reader.until(() => reader.messages.length === 2)
  assert.equal(await stream.metric('stream_gaps_total', 'repository'), 1)
})
