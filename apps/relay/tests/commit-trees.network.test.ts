/** A commit with a wrong tree costs its account a `#sync`, at once. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const elsewhere = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const relay = await startTestRelay({ plcUrl: plc.url, sources: [host.host, elsewhere.host] })
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await elsewhere.stop()
  await plc.stop()
})
const collection = 'org.impact.collection'

const syncsOf = (reader: FirehoseReader, { did }: ScriptedAccount) =>
  reader.frames.filter(({ t, body }) => t === '#sync' && body['did'] === did)

test('a commit that is refused for its tree makes its account whole at once, with no further event', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const other = await host.createAccount()
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const refused = await relay.refused('invalid-mst')
  host.emitHostile('not-inverting', account, other)
  await reader.until(() => syncsOf(reader, account).length === 1)
  assert.equal(await relay.refused('invalid-mst'), refused + 1)
  assert.equal(syncsOf(reader, account)[0]?.body['rev'], account.rev)
})

test('so does the first commit of an account at its new host', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const other = await elsewhere.createAccount()
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  await account.moveTo(elsewhere)
  const refused = await relay.refused('invalid-mst')
  elsewhere.emitHostile('not-inverting', account, other)
  await eventually(async () => (await relay.refused('invalid-mst')) > refused)
  await reader.until(() => syncsOf(reader, account).length === 1)
})
