import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import Database from 'better-sqlite3'
import type { Did } from '@tributary/protocol'
import {
  eventually,
  startPlc,
  startProcess,
  startScriptedHost,
  type ScriptedAccount,
  type ScriptedHost,
} from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { operatorToken, startTestRelay, type TestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const root = mkdtempSync(join(tmpdir(), 'relay-promised-'))
after(async () => {
  await plc.stop()
  rmSync(root, { recursive: true })
})

const framesOf = (reader: FirehoseReader, { did }: ScriptedAccount) =>
  reader.frames.filter(({ body }) => body['did'] === did || body['repo'] === did)

/** A host that says how its accounts are, and gives no repository until it is told to. */
async function secretiveHost(): Promise<{ host: ScriptedHost; open: () => void }> {
  const host = await startScriptedHost({ plcUrl: plc.url })
  for (const method of ['getRecord', 'getRepo'])
    host.answers.set(`com.atproto.sync.${method}`, (_, response) => response.writeHead(503).end())
  return { host, open: () => host.answers.clear() }
}

async function writingAccount(host: ScriptedHost, reader: FirehoseReader): Promise<ScriptedAccount> {
  const account = await host.createAccount()
  account.create('org.impact.collection', { n: 1 })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  return account
}

test('an account that breaks its chain too often is still held back, and marked, after its state was built from the log', async () => {
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const dataDirectory = mkdtempSync(join(root, 'relay-'))
  const settings = { plcUrl: plc.url, sources: [host.host], dataDirectory }
  let account: ScriptedAccount
  const known = async (relay: TestRelay) => {
    const { body } = await operate(relay, 'getAccount', { query: { did: account.did } })
    return [body['isHeldBack'], body['isIncomplete'], body['status']]
  }
  {
    await using relay = await startTestRelay(settings)
    using reader = new FirehoseReader(relay.url, 0)
    account = await writingAccount(host, reader)
    const collection = 'org.impact.collection'
    for (let n = 1; n <= 101; n++) {
      // A commit that nobody hears of.
      account.commit([{ action: 'create', collection, rkey: `silent-${n}`, record: { n } }])
      account.create(collection, { n }, `heard-${n}`)
    }
    await reader.until(() => framesOf(reader, account).at(-1)?.body['status'] === 'throttled')
    assert.deepEqual(await known(relay), [true, true, 'throttled'])
  }
  await using relay = await startTestRelay({ ...settings, rebuildState: true })
  assert.deepEqual(await known(relay), [true, true, 'throttled'])
})

test('the #sync after a lifted takedown comes when the relay was killed before it could note that', async () => {
  const { host, open } = await secretiveHost()
  await using _host = host
  const dataDirectory = mkdtempSync(join(root, 'relay-'))
  const settings = { plcUrl: plc.url, sources: [host.host], dataDirectory }
  const tokenFile = join(root, 'token')
  writeFileSync(tokenFile, operatorToken)
  let account: ScriptedAccount
  {
    await using relay = await startTestRelay(settings)
    using reader = new FirehoseReader(relay.url, 0)
    account = await writingAccount(host, reader)
    await relay.accounts.setLocalStatus(account.did as Did, 'takendown') // of a real directory
  }
  const entry = new URL('../src/main.ts', import.meta.url).pathname
  {
    const relay = await startProcess(entry, {
      env: {
        TRIBUTARY_RELAY_PORT: '0',
        TRIBUTARY_RELAY_DATA_DIRECTORY: dataDirectory,
        TRIBUTARY_RELAY_PLC_URL: plc.url,
        TRIBUTARY_RELAY_SOURCES: host.host,
        TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: host.host,
        TRIBUTARY_RELAY_OPERATOR_TOKEN: tokenFile,
        TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
      },
      endsByItself: true,
    })
    using reader = new FirehoseReader(relay.url, 0)
    // Nothing can be written to the state from now on.
    const state = new Database(join(dataDirectory, 'state.sqlite'))
    state.exec('BEGIN IMMEDIATE')
    await operate(relay, 'updateAccountStatus', { input: { did: account.did, status: 'active' } })
    await reader.until(() => framesOf(reader, account).at(-1)?.body['active'] === true)
    process.kill(relay.pid, 'SIGKILL')
    await relay.exited
    state.close()
  }
  open()
  await using relay = await startTestRelay(settings)
  using reader = new FirehoseReader(relay.url, 0)
  await eventually(
    () => framesOf(reader, account).at(-1)?.t === '#sync',
    () => framesOf(reader, account).map(({ t, body }) => [t, body['active'], body['status']]),
  )
  assert.equal(framesOf(reader, account).at(-2)?.body['active'], true)
})
