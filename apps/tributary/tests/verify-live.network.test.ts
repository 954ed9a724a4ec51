import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  eventually,
  freePort,
  migrateAccount,
  rotateSigningKey,
  sampleRecord,
  startNetwork,
  startProcess,
  startScriptedHost,
  type Account,
} from '@tributary/testkit'
import { runCli } from './run-cli.ts'

const collection = 'org.impact.collection'
const relayMain = join(import.meta.dirname, '..', '..', 'relay', 'src', 'main.ts')
const network = await startNetwork({ pds: 2 })
after(() => network.stop())

test('verify --live finds nothing wrong with what the relay makes of real PDSs, through every change of an account', async () => {
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

test('verify --live finds nothing wrong after takedowns, a deletion, a new key and a restart of the relay', async () => {
  const [pds] = network.pds
  assert.ok(pds)
  const directory = mkdtempSync(join(tmpdir(), 'verify-changes-'))
  const port = await freePort()
  const tokenFile = join(directory, 'operator-token')
  writeFileSync(tokenFile, 'the-operator-token-of-tests')
  const start = () =>
    startProcess(relayMain, {
      env: {
        TRIBUTARY_RELAY_PORT: String(port),
        TRIBUTARY_RELAY_DATA_DIRECTORY: directory,
        TRIBUTARY_RELAY_PLC_URL: network.plcUrl,
        TRIBUTARY_RELAY_SOURCES: pds.host,
        TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: pds.host,
        TRIBUTARY_RELAY_OPERATOR_TOKEN: tokenFile,
        TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
      },
    })
  let relay = await start()
  try {
    const accounts = await Promise.all([0, 1, 2, 3].map(() => network.createAccount({ pds: 0 })))
    const [hidden, excluded, deleted, rotated] = accounts
    assert.ok(hidden && excluded && deleted && rotated)
    const statusOf = async ({ did }: { did: string }) => {
      const answer = await fetch(`${relay.url}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`)
      return (await answer.json()) as { active?: boolean; status?: string; rev?: string } // as the lexicon has it
    }
    const becomes = (account: { did: string }, wanted: string) =>
      eventually(async () => {
        const { active, status } = await statusOf(account)
        return (active === true ? 'active' : status) === wanted
      })
    const operate = async (command: string, { did }: { did: string }) => {
      const where = ['--url', relay.url, '--operator-token-file', tokenFile]
      const { code, stderr } = await runCli(['relay', 'accounts', command, did, ...where])
      assert.equal(code, 0, stderr)
    }
    const write = (account: Account) => account.create(collection, sampleRecord(collection))
    await Promise.all(accounts.map(write))
    await Promise.all(accounts.map((account) => becomes(account, 'active')))

    await pds.takedown(hidden.did)
    await becomes(hidden, 'takendown')
    await operate('takedown', excluded)
    await write(excluded)
    await rotateSigningKey(rotated)
    await relay.stop()
    await write(rotated)
    await pds.deleteAccount(deleted.did)
    relay = await start()
    await becomes(deleted, 'deleted')
    await pds.takedown(hidden.did, false)
    await becomes(hidden, 'active')
    await operate('restore', excluded)
    const staying = [hidden, excluded, rotated]
    const isCurrent = async () => {
      const repos = await pds.listRepos()
      for (const account of staying) {
        const rev = repos.find(({ did }) => did === account.did)?.rev
        await eventually(async () => (await statusOf(account)).rev === rev)
      }
    }
    // What was written while an account was taken down is made up for by a #sync.
    await isCurrent()
    await Promise.all(staying.map(write))
    await isCurrent()

    const where = ['--live', relay.url, '--plc', network.plcUrl]
    const { code, stdout, stderr } = await runCli(['verify', ...where, '--cursor', '0', '--for', '5'])
    assert.match(stdout, /: 0 faults$/m)
    assert.deepEqual([code, stderr], [0, ''])
    const commits = Number(/(\d+) commit/.exec(stdout)?.[1])
    // Those of the deleted account are hidden.
    assert.ok(commits >= 3 * 2 + 1 + 3, stdout)
    assert.match(stdout, /[1-9]\d* sync/)
  } finally {
    await relay.stop()
    rmSync(directory, { recursive: true, force: true })
  }
})

test('verify --live names each fault and fails', async () => {
  await using host = await startScriptedHost({ plcUrl: network.plcUrl })
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
    network.plcUrl,
    '--cursor',
    '0',
    '--count',
    count,
  ])
  assert.equal(code, 1)
  const reasons = [...stdout.matchAll(/^fault: (\S+) /gm)].map(([, reason]) => reason)
  assert.deepEqual(reasons, ['invalid-mst', 'bad-signature', 'rev-not-increasing', 'inactive-account'])
  assert.match(stdout, /: 4 faults$/m)
  // Without the directory nothing is known of the relay, which is not at fault.
  const keyless = ['--plc', 'http://127.0.0.1:1', '--cursor', '0', '--count', count]
  const unchecked = await runCli(['verify', '--live', host.url, ...keyless])
  assert.match(unchecked.stdout, /^not checked: at seq \d+ of did:\S+: /)
  assert.match(unchecked.stdout, new RegExp(`^${count} messages \\(.* unchecked.*: 0 faults$`, 'm'))
  assert.equal(unchecked.code, 69)
  const nobody = await runCli(['verify', '--live', 'http://127.0.0.1:1', '--count', '1'])
  assert.equal(nobody.code, 69)
  assert.match(nobody.stderr, /^tributary verify: 127\.0\.0\.1:1 did not answer as a relay: [^\n]+\n$/)
})
