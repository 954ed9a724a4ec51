import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  migrateAccount,
  sampleRecord,
  startNetwork,
  startPlc,
  startProcess,
  startScriptedHost,
} from '@tributary/testkit'
import { runCli } from './run-cli.ts'

const collection = 'org.impact.collection'
const relayMain = join(import.meta.dirname, '..', '..', 'relay', 'src', 'main.ts')

test('verify --live finds nothing wrong with what the relay makes of real PDSs, through every change of an account', async () => {
  await using network = await startNetwork({ pds: 2 })
  const directory = mkdtempSync(join(tmpdir(), 'verify-'))
  const hosts = network.pds.map(({ host }) => host).join(',')
  const relay = await startProcess(relayMain, {
    env: {
      TRIBUTARY_RELAY_PORT: '0',
      TRIBUTARY_RELAY_DATA_DIRECTORY: directory,
      TRIBUTARY_RELAY_PLC_URL: network.plcUrl,
      TRIBUTARY_RELAY_SOURCES: hosts,
      TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: hosts,
      TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
    },
  })
  try {
    const where = ['--live', relay.url, '--plc', network.plcUrl]
    const verify = () => runCli(['verify', ...where, '--cursor', '0', '--count', '30'])
    const verifying = verify()
    const [staying, moving] = await Promise.all([0, 1].map((pds) => network.createAccount({ pds })))
    assert.ok(staying && moving)
    const [target] = network.pds
    assert.ok(target)
    await staying.create(collection, sampleRecord(collection), 'one')
    await staying.put(collection, 'one', sampleRecord(collection))
    await staying.updateHandle(staying.handle.replace(/^./, 'z'))
    await staying.deactivate()
    await staying.activate()
    await staying.delete(collection, 'one')
    await migrateAccount(moving, target)
    // At once, before the relay can know that it moved, and signed with the key of the new PDS.
    for (let i = 0; i < 20; i++) await moving.create(collection, sampleRecord(collection))
    // Live, and once more from the beginning, where the key before the move has been replaced already.
    for (const { code, stdout, stderr } of [await verifying, await verify()]) {
      assert.match(stdout, /^30 messages \(.*\d+ commit.*\) of 2 accounts, up to seq \d+: 0 faults$/m)
      assert.deepEqual([code, stderr], [0, ''])
    }
  } finally {
    await relay.stop()
    rmSync(directory, { recursive: true, force: true })
  }
})

test('verify --live names each fault and fails', async () => {
  await using stack = new AsyncDisposableStack()
  const plc = await startPlc()
  stack.defer(() => plc.stop())
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const [account, other] = [await host.createAccount(), await host.createAccount()]
  account.create(collection, { title: 'good' })
  host.emitHostile('not-inverting', account, other)
  host.emitHostile('broken-signature', account, other)
  host.emitHostile('stale-rev', account, other)
  account.setStatus('takendown')
  account.create(collection, { title: 'from the grave' })
  const count = String(host.lastSeq)
  const { code, stdout } = await runCli([
    'verify',
    '--live',
    host.url,
    '--plc',
    plc.url,
    '--cursor',
    '0',
    '--count',
    count,
  ])
  assert.equal(code, 1)
  const reasons = [...stdout.matchAll(/^fault: (\S+) /gm)].map(([, reason]) => reason)
  assert.deepEqual(reasons, ['invalid-mst', 'bad-signature', 'rev-not-increasing', 'inactive-account'])
  assert.match(stdout, /: 4 faults$/m)
  const nobody = await runCli(['verify', '--live', 'http://127.0.0.1:1', '--count', '1'])
  assert.equal(nobody.code, 69)
  assert.match(nobody.stderr, /^tributary verify: 127\.0\.0\.1:1 did not answer as a relay: [^\n]+\n$/)
})
