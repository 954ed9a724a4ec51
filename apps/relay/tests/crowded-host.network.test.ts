import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { hostOf, untilHost } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const crowded = await startScriptedHost({ plcUrl: plc.url })
const roomy = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const relay = await startTestRelay({
  plcUrl: plc.url,
  sources: [crowded.host, roomy.host],
  accountQuota: 1,
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await crowded.stop()
  await roomy.stop()
  await plc.stop()
})
const collection = 'org.impact.collection'

function statuses(reader: FirehoseReader, did: string): unknown[] {
  return reader.frames
    .filter(({ t, body }) => t === '#account' && body['did'] === did)
    .map(({ body }) => (body['active'] === true ? 'active' : body['status']))
}

test('of the accounts that a host has no slots for only so many are kept and announced', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  for (let n = 0; n < 100; n++) (await crowded.createAccount({ announce: false })).create(collection, { n })
  await untilHost(relay, crowded.host, ({ throttledCount }) => throttledCount === 99)
  const refused = await relay.refused('over-quota')
  const beyond = [
    await crowded.createAccount({ announce: false }),
    await crowded.createAccount({ announce: false }),
  ]
  const [writing, leaving] = beyond
  assert.ok(writing && leaving)
  writing.create(collection, { n: 101 })
  leaving.setStatus('deactivated')
  await eventually(async () => (await relay.refused('over-quota')) === refused + 2)
  assert.equal((await hostOf(relay, crowded.host))['throttledCount'], 99)
  await reader.until(() => reader.frames.length === 100)
  for (const { did } of beyond) {
    assert.deepEqual(statuses(reader, did), [])
    const answer = await fetch(`${relay.url}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`)
    assert.equal(answer.status, 400)
  }
})

test('an account without a slot that writes at a new host which has one is announced, and what it wrote is made up for', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  await reader.until(() => reader.frames.some(({ body }) => body['status'] === 'throttled'))
  const told = reader.frames.find(({ body }) => body['status'] === 'throttled')
  const account = crowded.accounts.get(String(told?.body['did']))
  assert.ok(account)
  await account.moveTo(roomy)
  account.create(collection, { title: 'there' }, 'there')
  await reader.until(() => reader.frames.some(({ t, body }) => t === '#sync' && body['did'] === account.did))
  assert.deepEqual(statuses(reader, account.did), ['throttled', 'active'])
  assert.equal(reader.opsOf(account.did).length, 1)
})
