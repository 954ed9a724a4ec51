import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startPlc, startScriptedHost } from '@tributary/testkit'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = await startFailingDirectory(plc.url)
const host = await startScriptedHost({ plcUrl: plc.url })
let aheadMs = 0
const relay = await startTestRelay(
  { plcUrl: directory.url, sources: [host.host], sourceEventsPerSecond: 100_000 },
  { nowMs: () => Date.now() + aheadMs },
)
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  directory.close()
  await plc.stop()
})

test('an account that waits for its document is left out when too much of its source stands behind it, and healed', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const quiet = await host.createAccount({ announce: false })
  const busy = await host.createAccount({ announce: false })
  directory.failing.add(quiet.did)
  quiet.create('org.impact.collection', { n: 1 })
  busy.create('org.impact.collection', { n: 1 })
  await reader.until(() => reader.opsOf(busy.did).length === 1)

  // Refused for being too many, which is cheap, and remembered all the same.
  for (let n = 0; n < 4001; n++) busy.announceIdentity()
  busy.create('org.impact.collection', { n: 2 })
  await reader.until(() => reader.opsOf(busy.did).length === 2)
  assert.equal(await relay.refused('identity-unavailable'), 0)

  aheadMs = 10_001
  busy.create('org.impact.collection', { n: 3 })
  await reader.until(() => reader.opsOf(busy.did).length === 3)
  assert.equal(await relay.refused('identity-unavailable'), 1)

  directory.failing.delete(quiet.did)
  await reader.until(() => reader.frames.some(({ t, body }) => t === '#sync' && body['did'] === quiet.did))
})
