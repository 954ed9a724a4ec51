import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = await startFailingDirectory(plc.url)
const host = await startScriptedHost({ plcUrl: plc.url })
const relay = await startTestRelay({
  plcUrl: directory.url,
  sources: [host.host],
  identityWaitSeconds: 1,
  sourceEventsPerSecond: 10_000,
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  directory.close()
  await plc.stop()
})

const framesOf = (reader: FirehoseReader, { did }: ScriptedAccount, type: string) =>
  reader.frames.filter(({ t, body }) => t === type && (body['did'] === did || body['repo'] === did))

async function statusOf({ did }: ScriptedAccount): Promise<unknown> {
  const answer = await fetch(`${relay.url}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`)
  const { error, active, status } = (await answer.json()) as Record<string, unknown> // XRPC answers are objects
  return error ?? [active, status]
}

test('an #account that was left out is made up for by what the host says', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount({ announce: false })
  const refused = await relay.refused('identity-unavailable')
  directory.failing.add(account.did)
  account.setStatus('deactivated')
  await eventually(async () => (await relay.refused('identity-unavailable')) > refused)
  directory.failing.delete(account.did)
  await reader.until(() => framesOf(reader, account, '#account').length === 1)
  assert.deepEqual(await statusOf(account), [false, 'deactivated'])
})

test('an account that breaks its chain too often is throttled, and that is said', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  account.create('org.impact.collection', { n: 0 })
  const collection = 'org.impact.collection'
  for (let n = 1; n <= 102; n++) {
    // A commit that nobody hears of.
    account.commit([{ action: 'create', collection, rkey: `silent-${n}`, record: { n } }])
    account.create(collection, { n }, `heard-${n}`)
  }
  await reader.until(() => framesOf(reader, account, '#account').length === 2)
  const [, last] = framesOf(reader, account, '#account')
  assert.deepEqual([last?.body['active'], last?.body['status']], [true, 'throttled'])
  await eventually(async () => (await relay.refused('too-many-breaks')) >= 2)
  assert.equal(reader.opsOf(account.did).length, 101)
  assert.deepEqual(await statusOf(account), [true, 'throttled'])
  const known = (await operate(relay, 'getAccount', { query: { did: account.did } })).body
  const { chainBreaks, isHeldBack, isIncomplete, isDesynchronized } = known
  assert.deepEqual([isHeldBack, isIncomplete, isDesynchronized], [true, true, true])
  assert.ok(Number(chainBreaks) > 100)
  assert.ok(Date.now() - Date.parse(String(known['chainBreaksSince'])) < 180_000)
  // Its host says that it is active: that it is not heard is still our word.
  account.setStatus(undefined)
  await reader.until(() => framesOf(reader, account, '#account').length === 3)
  assert.equal(framesOf(reader, account, '#account').at(-1)?.body['status'], 'throttled')
})

test('what a host says beside active is kept and said again', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  host.emit('#account', { did: account.did, active: true, status: 'desynchronized' })
  await reader.until(() => framesOf(reader, account, '#account').length === 2)
  assert.deepEqual(await statusOf(account), [true, 'desynchronized'])
  account.setStatus(undefined)
  await reader.until(() => framesOf(reader, account, '#account').length === 3)
  assert.deepEqual(await statusOf(account), [true, undefined])
})

test('accounts of which nothing passed are not kept, however many a host names', async () => {
  const known = async () => {
    const text = await (await fetch(`${relay.url}/metrics`)).text()
    return Number(/^relay_accounts(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1])
  }
  const before = await known()
  assert.ok(before > 0)
  const refused = await relay.refused('identity-not-found')
  for (let n = 0; n < 200; n++) {
    const did = `did:plc:${n
      .toString(32)
      .replace(/[0189]/g, 'a')
      .padStart(24, 'q')}`
    host.emit('#account', { did, active: true })
    // Documents are waited for a second here, in which a busy machine does not look for all of them.
    if (n % 20 === 19)
      await eventually(
        async () => (await relay.refused('identity-not-found')) > refused + n,
        () => relay.refused('identity-not-found'),
      )
  }
  assert.equal(await known(), before)
})
