import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { readSettings } from '@tributary/settings'
import { createAccount, freePort, startPds, startPlc } from '@tributary/testkit'
import { limitsOf } from '../src/policy/relay-limits.ts'
import { PolicyStore } from '../src/policy/policy-store.ts'
import { relaySettings } from '../src/index.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { hostOf, operate, untilHost } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const directory = mkdtempSync(join(tmpdir(), 'lossy-pds-'))
const pds = await startPds({ plcUrl: plc.url, directory })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-'))
const mutePort = await freePort()
const mute = `localhost:${mutePort}`
const start = () =>
  startTestRelay({
    plcUrl: plc.url,
    sources: [],
    allowedPrivateHosts: [pds.host, mute],
    dataDirectory,
    admission: 'open',
  })
let relay = await start()
after(async () => {
  await relay[Symbol.asyncDispose]()
  await pds.stop()
  await plc.stop()
  for (const each of [directory, dataDirectory]) rmSync(each, { recursive: true, force: true })
})
const crawl = async (hostname: string) => {
  const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.requestCrawl`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ hostname }),
  })
  const text = await response.text()
  return [response.status, text && (JSON.parse(text) as { error: string }).error]
}

test('under open admission a crawl request admits a PDS, and a host that answers nothing is unreachable', async () => {
  const server = createServer((socket) => socket.on('error', () => undefined)).listen(mutePort, '127.0.0.1')
  await once(server, 'listening')
  const [admitted, silent] = await Promise.all([crawl(pds.host), crawl(mute)])
  server.close()
  assert.deepEqual(admitted, [200, ''])
  assert.deepEqual(silent, [400, 'HostUnreachable'])
  await untilHost(relay, pds.host, ({ state }) => state === 'connected')
})

test('a PDS that lost its data and starts at 1 again is read from its oldest event, by itself', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const before = await createAccount(pds)
  for (let n = 0; n < 20; n++) await before.create('com.example.note', { n })
  await reader.until(() => reader.opsOf(before.did).length === 20)
  await untilHost(relay, pds.host, ({ cursor }) => Number(cursor) > 20)
  await pds.stop()
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) rmSync(join(entry.parentPath, entry.name))
  await pds.start()
  const account = await createAccount(pds)
  await account.create('com.example.note', { text: 'anew' })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const host = await untilHost(relay, pds.host, ({ state }) => state === 'connected')
  assert.equal(host['epoch'], 2)
})

test('what was decided outlives the relay: limits, bans, pauses, and what was added today', async () => {
  await operate(relay, 'updateSettings', {
    input: { admission: 'approved', newSourcesPerDay: 1, crawlRequests: 'off' },
  })
  await operate(relay, 'putDomainBan', { input: { domain: 'bad.dev' } })
  await operate(relay, 'updateHost', {
    input: { hostname: pds.host, accountQuota: 5, validation: 'lenient' },
  })
  await operate(relay, 'setHostStatus', { input: { hostname: pds.host, status: 'paused' } })
  await relay[Symbol.asyncDispose]()
  relay = await start()
  const host = await hostOf(relay, pds.host)
  assert.deepEqual(
    [host['desired'], host['state'], host['accountQuota'], host['validation'], host['epoch']],
    ['paused', 'disabled', 5, 'lenient', 2],
  )
  const settings = (await operate(relay, 'getSettings')).body
  assert.equal((settings['limits'] as { admission: string }).admission, 'approved')
  assert.equal(settings['newSourcesLeft'], 0)
  assert.deepEqual(await crawl(pds.host), [403, 'CrawlDisabled'])
  await operate(relay, 'updateSettings', { input: { crawlRequests: 'on' } })
  assert.deepEqual(await crawl('pds.bad.dev'), [400, 'HostBanned'])
  assert.deepEqual(await crawl(pds.host), [400, 'HostNotApproved'])
  await operate(relay, 'setHostStatus', { input: { hostname: pds.host, status: 'enabled' } })
  await untilHost(relay, pds.host, ({ state }) => state === 'connected')
})

/** Changes what is decided as an operation does, and leaves out what follows, as when the process is killed between. */
async function decideOnly(change: (policy: PolicyStore) => void): Promise<void> {
  await relay[Symbol.asyncDispose]()
  const limits = limitsOf(readSettings(relaySettings, { env: {} }))
  const policy = new PolicyStore(join(dataDirectory, 'policy.sqlite'), limits)
  change(policy)
  policy.close()
  relay = await start()
}

test('a takedown, and the end of one, take effect at the next start when the process died before', async () => {
  const account = await createAccount(pds)
  const did = account.did as Did // of a real directory
  const other = await createAccount(pds)
  await account.create('com.example.note', { text: 'hidden' })
  const statusOf = async () => {
    const url = `${relay.url}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`
    const { active, status } = (await (await fetch(url)).json()) as { active?: boolean; status?: string }
    return active === true ? 'active' : status
  }
  const opsSeen = async (text: string) => {
    using reader = new FirehoseReader(relay.url, 0)
    const before = reader.opsOf(other.did).length
    await other.create('com.example.note', { text })
    await reader.until(() => reader.opsOf(other.did).length > before)
    return reader.opsOf(did).length
  }
  {
    using reader = new FirehoseReader(relay.url, 0)
    await reader.until(() => reader.opsOf(did).length === 1)
  }
  await decideOnly((policy) => policy.setTakedown(did, { status: 'takendown', reason: 'spam' }))
  assert.deepEqual([await statusOf(), await opsSeen('while it is down')], ['takendown', 0])
  await decideOnly((policy) => policy.liftTakedown(did))
  assert.equal(await statusOf(), 'active')
  assert.deepEqual((await operate(relay, 'listTakedowns')).body['takedowns'], [])
  await account.create('com.example.note', { text: 'shown again' })
  using reader = new FirehoseReader(relay.url, 0)
  await reader.until(() => reader.opsOf(did).length === 2)
  const lastSeq = reader.seqs.at(-1) ?? 0
  // The log has lost this one with all that came after it, and the source is past what was left out meanwhile.
  await decideOnly((policy) => {
    policy.setTakedown(did, { status: 'takendown', reason: 'spam' })
    policy.liftTakedown(did)
  })
  using later = new FirehoseReader(relay.url, lastSeq)
  await later.until(() => later.frames.some(({ t, body }) => t === '#sync' && body['did'] === did))
})
