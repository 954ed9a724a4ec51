import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, test } from 'node:test'
import { freePort, startPlc, startScriptedHost } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { hostOf, operate, untilHost } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const first = await startScriptedHost({ plcUrl: plc.url })
const second = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const silentPort = await freePort()
const silent = `localhost:${silentPort}`
const relay = await startTestRelay({
  plcUrl: plc.url,
  sources: [first.host],
  allowedPrivateHosts: [first.host, second.host, silent, 'localhost:1'],
  accountQuota: 3,
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await first.stop()
  await second.stop()
  await plc.stop()
})
const collection = 'org.impact.collection'
const crawl = async (hostname: string): Promise<[number, unknown]> => {
  const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.requestCrawl`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ hostname }),
  })
  const text = await response.text()
  return [response.status, text && (JSON.parse(text) as { error: string }).error]
}
const statusOf = async (hostname: string) =>
  (await (
    await fetch(`${relay.url}/xrpc/com.atproto.sync.getHostStatus?hostname=${hostname}`)
  ).json()) as Record<string, unknown>

test('a source is added after it showed that it is a PDS, paused, resumed, removed and added again', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  assert.deepEqual(await crawl(second.host), [400, 'HostNotApproved'])
  assert.equal(
    (await operate(relay, 'addHost', { input: { hostname: 'localhost:1' } })).body['error'],
    'HostUnreachable',
  )
  const account = await second.createAccount()
  const added = await operate(relay, 'addHost', { input: { hostname: second.host, actor: 'ann' } })
  assert.deepEqual(added, { status: 200, body: { hostname: second.host, added: true } })
  account.create(collection, { title: 'one' })
  await reader.until(() => reader.opsOf(account.did).length === 1)

  const set = async (status: string) =>
    (await operate(relay, 'setHostStatus', { input: { hostname: second.host, status } })).status
  assert.equal(await set('paused'), 200)
  await untilHost(relay, second.host, ({ state }) => state === 'disabled')
  assert.equal((await statusOf(second.host))['status'], 'banned')
  assert.deepEqual(await crawl(second.host), [400, 'HostNotApproved'])
  account.create(collection, { title: 'two' })
  assert.equal(await set('enabled'), 200)
  await reader.until(() => reader.opsOf(account.did).length === 2)

  assert.equal(await set('banned'), 200)
  assert.deepEqual(await crawl(second.host), [400, 'HostBanned'])
  assert.equal(await set('removed'), 200)
  assert.equal((await statusOf(second.host))['error'], 'HostNotFound')
  const again = await operate(relay, 'addHost', { input: { hostname: second.host } })
  assert.deepEqual(again.body, { hostname: second.host, added: false })
  account.create(collection, { title: 'three' })
  await reader.until(() => reader.opsOf(account.did).length === 3)
  const { body } = await operate(relay, 'listAudit')
  const rows = body['audit'] as { actor: string; operation: string; subject: string }[]
  assert.deepEqual(
    rows.map(({ actor, operation }) => [actor, operation]),
    [
      ['operator', 'addHost'],
      ['operator', 'setHostStatus'],
      ['operator', 'setHostStatus'],
      ['operator', 'setHostStatus'],
      ['operator', 'setHostStatus'],
      ['ann', 'addHost'],
    ],
  )
})

test('crawl requests are switched off and on', async () => {
  const set = async (crawlRequests: string) =>
    (await operate(relay, 'updateSettings', { input: { crawlRequests } })).status
  assert.equal(await set('off'), 200)
  assert.deepEqual(await crawl(first.host), [403, 'CrawlDisabled'])
  assert.deepEqual(await crawl('not a host'), [403, 'CrawlDisabled'])
  assert.equal(await set('sometimes'), 400)
  assert.equal(await set('on'), 200)
  assert.deepEqual(await crawl(first.host), [200, ''])
})

test('a domain ban disconnects what is under it, also by a crawl request, and lifting it brings it back', async () => {
  assert.equal((await operate(relay, 'putDomainBan', { input: { domain: 'localhost' } })).status, 200)
  await untilHost(relay, first.host, ({ state }) => state === 'banned')
  assert.deepEqual(await crawl(first.host), [400, 'HostBanned'])
  assert.equal((await operate(relay, 'addHost', { input: { hostname: silent } })).body['error'], 'HostBanned')
  assert.equal((await operate(relay, 'deleteDomainBan', { input: { domain: 'localhost' } })).status, 200)
  await untilHost(relay, first.host, ({ state }) => state === 'connected')
  assert.deepEqual(await crawl(first.host), [200, ''])
})

test('an account beyond the quota waits, and is let in with its current commit when the quota is raised', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  for (let n = 0; n < 3; n++) {
    const account = await first.createAccount()
    account.create(collection, { n })
    // Slots go to those whose documents are there first.
    await reader.until(() => reader.opsOf(account.did).length === 1)
  }
  const last = await first.createAccount()
  last.create(collection, { n: 4 })
  await untilHost(relay, first.host, ({ throttledCount }) => throttledCount === 1)
  const host = await hostOf(relay, first.host)
  assert.deepEqual([host['accountCount'], host['accountQuota'], host['isQuotaNear']], [3, 3, true])
  const metrics = await (await fetch(`${relay.url}/metrics`)).text()
  assert.match(metrics, /^relay_sources_quota_near\{[^}]*\} 1$/m)
  assert.match(metrics, /^relay_source_quota_share\{[^}]*\} 1$/m)
  const account = await operate(relay, 'getAccount', { query: { did: last.did } })
  assert.deepEqual([account.body['active'], account.body['status']], [false, 'throttled'])
  assert.equal(reader.opsOf(last.did).length, 0)
  await operate(relay, 'updateHost', { input: { hostname: first.host, accountQuota: 4 } })
  await reader.until(() => reader.frames.some(({ t, body }) => t === '#sync' && body['did'] === last.did))
  last.create(collection, { n: 5 })
  await reader.until(() => reader.opsOf(last.did).length === 1)
  assert.equal((await statusOf(first.host))['accountCount'], 4)
})

test('a source is read again from a chosen position, and what passed before does not pass again', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const again = first.nextConnection()
  const { body } = await operate(relay, 'resetHostCursor', {
    input: { hostname: first.host, position: 'oldest' },
  })
  assert.equal(body['epoch'], 2)
  assert.equal((await again).cursor, 0)
  await untilHost(relay, first.host, ({ cursor }) => cursor === first.lastSeq)
  const seen = reader.frames.filter(({ t }) => t === '#commit').map(({ body: { rev } }) => rev)
  assert.equal(new Set(seen).size, seen.length)
  const live = first.nextConnection()
  await operate(relay, 'resetHostCursor', { input: { hostname: first.host, position: 'live' } })
  assert.equal((await live).cursor, undefined)
})

test('a source whose numbering began anew is held when that is wished, until its position is reset', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = [...second.accounts.values()][0]
  assert.ok(account)
  await operate(relay, 'updateHost', { input: { hostname: second.host, onRenumbered: 'hold' } })
  await untilHost(relay, second.host, ({ cursor }) => cursor === second.lastSeq)
  await reader.until(() => reader.opsOf(account.did).length === 3)
  second.restartNumbering()
  const held = await untilHost(relay, second.host, ({ state }) => state === 'stuck')
  assert.match(String(held['stateReason']), /renumbered/)
  account.create(collection, { title: 'anew' })
  await operate(relay, 'resetHostCursor', { input: { hostname: second.host, position: 'oldest' } })
  await reader.until(() => reader.opsOf(account.did).length === 4)
  await untilHost(relay, second.host, ({ state }) => state === 'connected')
})

test('a source that is stuck at a message over the limit is moved on by the operator', async () => {
  const [account] = second.accounts.values()
  assert.ok(account)
  second.emitHostile('oversized-message', account, account)
  const isOversize = ({ state, stateReason }: Record<string, unknown>) =>
    state === 'stuck' && String(stateReason).includes('oversize')
  await untilHost(relay, second.host, isOversize)
  using reader = new FirehoseReader(relay.url)
  await reader.opened
  const skipped = await operate(relay, 'skipHostPosition', { input: { hostname: second.host } })
  assert.equal(skipped.body['cursor'], second.lastSeq)
  account.create(collection, { title: 'behind it' })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  await untilHost(relay, second.host, ({ state }) => state === 'connected')
  const refusals = (
    await operate(relay, 'listRefusals', { query: { hostname: second.host, reason: 'oversize' } })
  ).body
  assert.ok((refusals['refusals'] as unknown[]).length >= 2)
})

test('a rate pauses reading and loses nothing', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await second.createAccount()
  await operate(relay, 'updateHost', { input: { hostname: second.host, eventsPerSecond: 20 } })
  for (let n = 0; n < 60; n++) account.create(collection, { n })
  await untilHost(
    relay,
    second.host,
    ({ state, stateReason }) => state === 'throttled' && stateReason === 'rate',
  )
  const change = { hostname: second.host, eventsPerSecond: null }
  assert.equal((await operate(relay, 'updateHost', { input: change })).status, 200)
  await reader.until(() => reader.opsOf(account.did).length === 60)
})

test('an hour’s worth that is used up pauses reading, says until when, and is raised while it waits', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await second.createAccount()
  const update = async (change: object) =>
    (await operate(relay, 'updateHost', { input: { hostname: second.host, ...change } })).status
  const hourOf = (host: Record<string, unknown>) =>
    (host['budgets'] as Record<string, unknown>[]).find(({ window }) => window === 'hour') // as its lexicon says
  assert.equal(hourOf(await hostOf(relay, second.host)), undefined, 'it is off here')
  assert.equal(await update({ eventsPerHour: 1 }), 200)
  for (let n = 0; n < 100; n++) account.create(collection, { n })
  const host = await untilHost(relay, second.host, ({ state }) => state === 'throttled')
  const { limit, left, waitSeconds, refillSeconds } = hourOf(host) ?? {}
  assert.deepEqual([host['hasOwnRate'], limit, left], [true, 1, 0])
  assert.ok(Number(waitSeconds) > 3000 && Number(refillSeconds) >= Number(waitSeconds))
  assert.equal(await update({ eventsPerHour: 0 }), 200)
  await reader.until(() => reader.opsOf(account.did).length === 100)
  assert.equal(await update({ eventsPerHour: -1 }), 400)
  assert.equal(await update({ eventsPerHour: null }), 200)
  assert.equal((await hostOf(relay, second.host))['hasOwnRate'], false)
})

test('metrics have every family that operators alert on, and no label that others choose', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  await reader.until(() => reader.frames.length > 0)
  const text = await (await fetch(`${relay.url}/metrics`)).text()
  const lines = text.split('\n')
  const valueOf = (pattern: RegExp): number => {
    const line = lines.find((each) => pattern.test(each))
    assert.ok(line !== undefined, `${pattern} in the metrics`)
    return Number(line.split(' ').at(-1))
  }
  for (const some of [
    /^relay_events_received_total\{.*type="#commit"/,
    /^relay_bytes_received_total\{.*type="#commit"/,
    /^relay_events_refused_total\{.*\} [1-9]/,
    /^relay_identity_lookups_total\{.*cache="hit"/,
    /^relay_identity_read_seconds_count\{.*outcome="found"/,
    /^relay_log_append_seconds_count/,
    /^relay_log_sync_seconds_count/,
    /^relay_head_seq/,
    /^relay_oldest_seq/,
    /^relay_log_bytes/,
    /^relay_disk_free_bytes/,
    /^relay_consumers\{/,
    /^relay_consumer_lag_count/,
    /^relay_sources\{.*state="connected"/,
    /^relay_accounts_by_status\{.*status="active"/,
    /^relay_source_events_received\{.*host="/,
    /^nodejs_eventloop_lag_p99_seconds/,
    /^nodejs_heap_size_used_bytes/,
    /^process_resident_memory_bytes/,
  ])
    assert.ok(valueOf(some) > 0, `${some} is above 0`)
  for (const any of [
    /^relay_source_rules_waived\{/,
    /^relay_discontinuities_total/,
    /^relay_waiting_(accounts|events|events_max|bytes)/,
    /^relay_consumer_lag_max/,
  ])
    assert.ok(valueOf(any) >= 0)
  assert.doesNotMatch(text, /did:plc/)
})

test('too little free disk pauses reading with a name, and reading goes on by itself', async () => {
  const limit = (diskFreeMbMin: number) => operate(relay, 'updateSettings', { input: { diskFreeMbMin } })
  await limit(1_000_000_000)
  await untilHost(
    relay,
    first.host,
    ({ state, stateReason }) => state === 'throttled' && stateReason === 'disk-floor',
  )
  const fresh = await fetch(`${relay.url}/fresh`)
  assert.deepEqual(
    [fresh.status, ((await fresh.json()) as { reading: string }).reading],
    [503, 'paused-disk-floor'],
  )
  assert.equal((await fetch(`${relay.url}/ready`)).status, 200)
  await limit(1)
  await untilHost(relay, first.host, ({ state }) => state === 'connected')
})

test('a host that drips its handshake for ever is given up, and disturbs nobody', async () => {
  const dripping = createServer((_, response) => response.end(JSON.stringify({ did: 'did:web:localhost' })))
  dripping.on('upgrade', (_, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nx: ')
    const drip = setInterval(() => socket.write('x'), 200)
    socket.on('error', () => undefined)
    socket.on('close', () => clearInterval(drip))
  })
  dripping.listen(silentPort, '127.0.0.1')
  await once(dripping, 'listening')
  assert.equal((await operate(relay, 'addHost', { input: { hostname: silent } })).status, 200)
  using reader = new FirehoseReader(relay.url)
  await reader.opened
  const [account] = first.accounts.values()
  assert.ok(account)
  account.create(collection, { title: 'meanwhile' })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const given = await untilHost(relay, silent, ({ lastError }) => lastError !== undefined)
  assert.equal(given['lastError'], 'no handshake in time')
  await operate(relay, 'setHostStatus', { input: { hostname: silent, status: 'removed' } })
  dripping.closeAllConnections()
  dripping.close()
})

test('a relay among the PDSs is found out, also when it is this one, and is read when it is said to be a relay', async () => {
  const port = await freePort()
  const itself = `localhost:${port}`
  const other = new URL(relay.url).host.replace('127.0.0.1', 'localhost')
  await using looped = await startTestRelay({ plcUrl: plc.url, port, sources: [itself, other] })
  for (const host of [itself, other]) {
    const { stateReason } = await untilHost(looped, host, ({ state }) => state === 'stuck')
    assert.equal(stateReason, 'relay-loop')
  }
  assert.match(String((await hostOf(looped, itself))['lastError']), /status 400/)
  const setKind = async (hostname: string, kind: 'pds' | 'relay'): Promise<void> => {
    await operate(looped, 'updateHost', { input: { hostname, kind } })
  }
  for (const hostname of [itself, other]) await setKind(hostname, 'relay')
  await untilHost(looped, other, ({ state }) => state === 'connected')
  const { eventsReceived, lastConnectedAt } = await hostOf(looped, itself)
  assert.deepEqual([eventsReceived, lastConnectedAt], [0, undefined], 'it never reads itself')
  await setKind(other, 'pds')
  await untilHost(looped, other, ({ stateReason }) => stateReason === 'relay-loop')
})

test('an account without a slot that writes at a new host which has one is announced, and what it wrote is made up for', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const quota = async (hostname: string, accountQuota: number) =>
    await operate(relay, 'updateHost', { input: { hostname, accountQuota } })
  await quota(first.host, 1)
  await quota(second.host, 100)
  const account = await first.createAccount()
  const statuses = (): unknown[] =>
    reader.frames
      .filter(({ t, body }) => t === '#account' && body['did'] === account.did)
      .map(({ body }) => (body['active'] === true ? 'active' : body['status']))
  await reader.until(() => statuses().length === 1)
  await account.moveTo(second)
  account.create(collection, { title: 'there' }, 'there')
  await reader.until(() => reader.frames.some(({ t, body }) => t === '#sync' && body['did'] === account.did))
  assert.deepEqual(statuses(), ['throttled', 'active'])
  assert.equal(reader.opsOf(account.did).length, 1)
})
