import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
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

test('what a host said beside active, and which account breaks its chain too often, is still known after a start', async () => {
  const [noted, broken] = [await host.createAccount(), await host.createAccount()]
  const collection = 'org.impact.collection'
  const statusOf = async (relay: { url: string }, { did }: { did: string }) => {
    const answer = await fetch(`${relay.url}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`)
    const { active, status } = (await answer.json()) as { active: boolean; status?: string } // as the lexicon has it
    return [active, status]
  }
  {
    await using relay = await startTestRelay(settings)
    host.emit('#account', { did: noted.did, active: true, status: 'desynchronized' })
    broken.create(collection, { n: 0 })
    for (let n = 1; n <= 101; n++) {
      // A commit that nobody hears of.
      broken.commit([{ action: 'create', collection, rkey: `silent-${n}`, record: { n } }])
      broken.create(collection, { n }, `heard-${n}`)
    }
    await eventually(async () => (await relay.refused('too-many-breaks')) === 1)
    assert.deepEqual(await statusOf(relay, noted), [true, 'desynchronized'])
  }
  await using relay = await startTestRelay(settings)
  assert.deepEqual(await statusOf(relay, noted), [true, 'desynchronized'])
  assert.deepEqual(await statusOf(relay, broken), [true, 'throttled'])
  broken.commit([{ action: 'create', collection, rkey: 'silent', record: {} }])
  broken.create(collection, { n: 102 }, 'heard')
  await eventually(async () => (await relay.refused('too-many-breaks')) === 1)
})
