import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-recovery-'))
const otherDirectory = mkdtempSync(join(tmpdir(), 'relay-lost-log-'))
const settings = { plcUrl: plc.url, sources: [host.host], dataDirectory, accountQuota: 3 }
after(async () => {
  await host.stop()
  await plc.stop()
  for (const each of [dataDirectory, otherDirectory]) rmSync(each, { recursive: true, force: true })
})

test('what host, operator and quota say of accounts outlives the state, which is folded again from the log', async () => {
  const taken = await host.createAccount()
  const away = await host.createAccount()
  const staying = await host.createAccount()
  const accounts = [taken, away, staying]
  const statuses = async (url: string): Promise<unknown[]> => {
    const asked = accounts.map(async ({ did }) => {
      const answer = await fetch(`${url}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`)
      const { active, status } = (await answer.json()) as { active?: boolean; status?: string } // as the lexicon has it
      return active === true ? 'active' : status
    })
    return await Promise.all(asked)
  }
  const lists = async (url: string): Promise<number> => {
    const answer = await fetch(
      `${url}/xrpc/com.atproto.sync.listReposByCollection?collection=org.impact.collection`,
    )
    return ((await answer.json()) as { repos: unknown[] }).repos.length // as the lexicon has it
  }
  const expected = ['takendown', 'takendown', 'active', 'active']
  {
    await using relay = await startTestRelay(settings)
    using reader = new FirehoseReader(relay.url, 0)
    const isThrottled = (did: string) =>
      reader.frames.some(({ body }) => body['did'] === did && body['status'] === 'throttled')
    for (const account of accounts) account.create('org.impact.collection', { n: 1 })
    await reader.until(() => accounts.every(({ did }) => reader.opsOf(did).length === 1))
    // Slots go to those whose documents are there first, so this one comes when all are taken.
    const left = await host.createAccount()
    accounts.push(left)
    await reader.until(() => isThrottled(left.did))
    await relay.accounts.setLocalStatus(taken.did as Did, 'takendown') // of a real directory
    await relay.accounts.setLocalStatus(away.did as Did, 'takendown') // of a real directory
    // A slot is freed by that, and taken by the account that waits; its host's word comes back with it.
    away.setStatus('deactivated')
    await reader.until(() => reader.frames.some(({ t, body }) => t === '#sync' && body['did'] === left.did))
    const later = await host.createAccount()
    await reader.until(() => isThrottled(later.did))
    assert.deepEqual(await statuses(relay.url), expected)
  }
  for (const rebuildState of [false, true]) {
    await using relay = await startTestRelay({ ...settings, rebuildState })
    assert.deepEqual(await statuses(relay.url), expected)
    // What is listed is read from the state, which is written behind the log.
    await eventually(
      async () => (await lists(relay.url)) === 1,
      () => lists(relay.url),
    )
    using reader = new FirehoseReader(relay.url, 0)
    await reader.until(() => reader.opsOf(staying.did).length === 1)
    assert.equal(reader.opsOf(taken.did).length, 0)
    // What the host said meanwhile was kept apart from what the operator said.
    if (rebuildState) {
      await relay.accounts.setLocalStatus(away.did as Did, undefined) // of a real directory
      assert.deepEqual((await statuses(relay.url))[1], 'deactivated')
    }
  }
})

test('a takedown can be lifted when it is all that is left of an account', async () => {
  const account = await host.createAccount({ announce: false })
  const { did } = account
  const other = { ...settings, dataDirectory: otherDirectory, accountQuota: 100 }
  {
    await using relay = await startTestRelay(other)
    using reader = new FirehoseReader(relay.url, 0)
    account.create('org.impact.collection', { n: 1 })
    await reader.until(() => reader.opsOf(account.did).length === 1)
    await operate(relay, 'updateAccountStatus', { input: { did, status: 'takendown' } })
  }
  rmSync(join(otherDirectory, 'log'), { recursive: true })
  await using relay = await startTestRelay({ ...other, rebuildState: true })
  using reader = new FirehoseReader(relay.url, 0)
  const { body } = await operate(relay, 'getAccount', { query: { did } })
  assert.deepEqual([body['status'], body['hostname']], ['takendown', undefined])
  const lifted = await operate(relay, 'updateAccountStatus', { input: { did, status: 'active' } })
  assert.equal(lifted.status, 200, JSON.stringify(lifted.body))
  account.create('org.impact.collection', { n: 2 }, 'after')
  await reader.until(() => reader.opsOf(account.did).some(({ rkey }) => rkey === 'after'))
})
