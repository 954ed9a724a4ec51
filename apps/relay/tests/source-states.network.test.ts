import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  eventually,
  startPlc,
  startScriptedHost,
  type ScriptedAccount,
  type ScriptedHost,
} from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { hostOf, operate, untilHost } from './operator-client.ts'
import { startTestRelay, type TestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const first = await startScriptedHost({ plcUrl: plc.url })
const second = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-'))
const sources = [first.host, second.host]
const start = () => startTestRelay({ plcUrl: plc.url, dataDirectory, sources })
after(async () => {
  await first.stop()
  await second.stop()
  await plc.stop()
  rmSync(dataDirectory, { recursive: true, force: true })
})

test('a source whose private host is not allowed any more is stuck, disturbs nobody, and can be removed', async () => {
  {
    await using relay = await start()
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
  await operate(relay, 'setHostStatus', { input: { ...removed, status: 'enabled' } })
})

/** An account whose first commit has passed. */
async function writingAccount(reader: FirehoseReader, home: ScriptedHost): Promise<ScriptedAccount> {
  const account = await home.createAccount()
  account.create('org.impact.collection', { n: 1 })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  return account
}

/** Has the relay say anew what an account is, for which it asks the account's host. */
async function restore(relay: TestRelay, { did }: ScriptedAccount): Promise<void> {
  for (const status of ['takendown', 'active'])
    await operate(relay, 'updateAccountStatus', { input: { did, status } })
}

const syncsOf = (reader: FirehoseReader, { did, rev }: ScriptedAccount) =>
  reader.frames.filter(({ t, body }) => t === '#sync' && body['did'] === did && body['rev'] === rev).length

test('a host that is banned or paused is not asked about its accounts, over a restart too, until it is wanted again', async () => {
  const asked = () => second.requests.filter((path) => /getRecord|getRepo/.test(path))
  for (const { forbid, allow } of [
    {
      forbid: { method: 'setHostStatus', input: { hostname: second.host, status: 'paused' } },
      allow: { method: 'setHostStatus', input: { hostname: second.host, status: 'enabled' } },
    },
    {
      forbid: { method: 'putDomainBan', input: { domain: second.address } },
      allow: { method: 'deleteDomainBan', input: { domain: second.address } },
    },
  ]) {
    let relay = await start()
    try {
      using reader = new FirehoseReader(relay.url, 0)
      const account = await writingAccount(reader, second)
      const other = await writingAccount(reader, first)
      assert.equal((await operate(relay, forbid.method, { input: forbid.input })).status, 200)
      const before = asked().length
      await restore(relay, account)
      await restore(relay, other)
      await reader.until(() => syncsOf(reader, other) === 1)
      assert.equal(asked().length, before)
      await relay[Symbol.asyncDispose]()
      relay = await start()
      using again = new FirehoseReader(relay.url)
      await again.opened
      await restore(relay, other)
      await again.until(() => syncsOf(again, other) === 1)
      assert.deepEqual([asked().length, syncsOf(again, account)], [before, 0])
      assert.equal((await operate(relay, allow.method, { input: allow.input })).status, 200)
      await again.until(() => syncsOf(again, account) === 1)
    } finally {
      await relay[Symbol.asyncDispose]()
    }
  }
})

test('what a source sent lately and how often its signatures failed is shown', async () => {
  await using relay = await start()
  using reader = new FirehoseReader(relay.url, 0)
  const account = await writingAccount(reader, first)
  const other = await writingAccount(reader, second)
  first.emitHostile('broken-signature', account, other)
  first.emitHostile('missing-fields', account, other)
  const host = await untilHost(relay, first.host, ({ signatureFailures }) => signatureFailures === 1)
  assert.ok(Number(host['eventsLastMinute']) >= 6, String(host['eventsLastMinute']))
  const metrics = await (await fetch(`${relay.url}/metrics`)).text()
  const line = metrics
    .split('\n')
    .find((each) => each.includes('signature_failures{') && each.includes(first.host))
  assert.match(line ?? '', / 1$/)
  const known = async () => (await operate(relay, 'getAccount', { query: { did: account.did } })).body
  const { rev, chainBreaks, isHeldBack } = await known()
  assert.deepEqual([rev, chainBreaks, isHeldBack], [account.rev, 0, false])
  // Its own host may have signed with a key that is replaced by now: what that commit held is made up for.
  await eventually(async () => (await known())['isIncomplete'] === false, known)
})

/** What everybody is told of a source, by every method that says something of it. */
async function toldOf(relay: TestRelay, hostname: string): Promise<unknown[]> {
  const sync = async (method: string) => {
    const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.${method}`)
    return (await response.json()) as { status: string; hosts: { hostname: string; status: string }[] } // one of both
  }
  const { state, status } = await hostOf(relay, hostname)
  const listed = (await sync('listHosts')).hosts.find((host) => host.hostname === hostname)
  const { status: asked } = await sync(`getHostStatus?hostname=${hostname}`)
  return [state, status, listed?.status, asked]
}

async function metricOf(relay: TestRelay, start: string): Promise<number> {
  const text = await (await fetch(`${relay.url}/metrics`)).text()
  const line = text.split('\n').find((each) => each.startsWith(start))
  return Number(line?.split(' ').at(-1))
}

async function freshOf(relay: TestRelay) {
  const response = await fetch(`${relay.url}/fresh`)
  const answer = (await response.json()) as { lagSeconds: number; reading: string; reasons: string[] } // as it answers
  return { code: response.status, ...answer }
}

test('an outage is told in the same words everywhere within two minutes, and lag does not say 0', async () => {
  const third = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.6' })
  let aheadMs = 0
  const nowMs = () => Date.now() + aheadMs
  await using relay = await startTestRelay({ plcUrl: plc.url, sources: [third.host] }, { nowMs })
  await untilHost(relay, third.host, ({ state }) => state === 'connected')
  assert.deepEqual(await toldOf(relay, third.host), ['connected', 'active', 'active', 'active'])
  aheadMs += 60_000
  assert.equal((await freshOf(relay)).lagSeconds, 0)
  assert.equal(await metricOf(relay, 'relay_events_refused_total{reason="internal-error"'), 0)

  await third.stop()
  await untilHost(relay, third.host, ({ state }) => state === 'connecting')
  aheadMs += 121_000
  assert.deepEqual(await toldOf(relay, third.host), ['unreachable', 'offline', 'offline', 'offline'])
  const fresh = await freshOf(relay)
  assert.deepEqual([fresh.code, fresh.reading], [503, 'no-source-connected'])
  assert.match(
    fresh.reasons.join(),
    /^None of 1 sources is connected: the last one was caught up with 12\d s ago\.$/,
  )
  assert.ok(fresh.lagSeconds >= 121, String(fresh.lagSeconds))
  assert.ok((await metricOf(relay, 'relay_lag_seconds')) >= 121)
  assert.ok((await metricOf(relay, 'relay_source_lag_seconds')) >= 121)
  assert.equal(await metricOf(relay, 'relay_sources{state="unreachable"'), 1)
  assert.equal(await metricOf(relay, 'relay_sources{state="connected"'), 0)
  assert.equal(await metricOf(relay, 'relay_source_down'), 1)

  await operate(relay, 'setHostStatus', { input: { hostname: third.host, status: 'paused' } })
  assert.deepEqual(await toldOf(relay, third.host), ['disabled', 'banned', 'banned', 'banned'])
  await operate(relay, 'setHostStatus', { input: { hostname: third.host, status: 'enabled' } })
  assert.equal((await hostOf(relay, third.host))['state'], 'connecting', 'it is dialled from now on')
})
