import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startPlc, startScriptedHost } from '@tributary/testkit'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = await startFailingDirectory(plc.url)
const host = await startScriptedHost({ plcUrl: plc.url })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-kept-'))
const settings = { plcUrl: directory.url, sources: [host.host], dataDirectory }
after(async () => {
  await host.stop()
  directory.close()
  await plc.stop()
  rmSync(dataDirectory, { recursive: true, force: true })
})

test('a relay that starts again asks the directory for nobody whom it knew, but for those who have changed', async () => {
  const same = await host.createAccount({ announce: false })
  const changed = await host.createAccount({ announce: false })
  {
    await using relay = await startTestRelay(settings)
    using reader = new FirehoseReader(relay.url, 0)
    for (const account of [same, changed]) account.create('org.impact.collection', { n: 1 })
    await reader.until(() => [same, changed].every(({ did }) => reader.opsOf(did).length === 1))
  }
  assert.ok(directory.asked.has(same.did))
  directory.asked.clear()

  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  changed.announceIdentity()
  for (const account of [same, changed]) account.create('org.impact.collection', { n: 2 })
  await reader.until(() => [same, changed].every(({ did }) => reader.opsOf(did).length === 2))
  assert.deepEqual([...directory.asked], [changed.did])
})
