import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startPlc, startScriptedHost } from '@tributary/testkit'
import { hostOf, operate, untilHost } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const first = await startScriptedHost({ plcUrl: plc.url })
const second = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-'))
after(async () => {
  await first.stop()
  await second.stop()
  await plc.stop()
  rmSync(dataDirectory, { recursive: true, force: true })
})

test('a source whose private host is not allowed any more is stuck, disturbs nobody, and can be removed', async () => {
  const sources = [first.host, second.host]
  {
    await using relay = await startTestRelay({ plcUrl: plc.url, dataDirectory, sources })
    await untilHost(relay, second.host, ({ state }) => state === 'connected')
  }
  await using relay = await startTestRelay({
    plcUrl: plc.url,
    dataDirectory,
    sources,
    allowedPrivateHosts: [first.host],
  })
  await untilHost(relay, first.host, ({ state }) => state === 'connected')
  const stuck = await untilHost(relay, second.host, ({ state }) => state === 'stuck')
  assert.deepEqual([stuck['stateReason'], stuck['lastError']], ['address not allowed', 'TLS is required'])
  const removed = { hostname: second.host, status: 'removed' }
  assert.equal((await operate(relay, 'setHostStatus', { input: removed })).status, 200)
  assert.equal((await hostOf(relay, second.host))['state'], 'disabled')
})
