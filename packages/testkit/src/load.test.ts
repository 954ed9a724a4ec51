import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { IdResolver } from '@atproto/identity'
import { verifyRepoCar } from '@atproto/repo'
import { parseDidKey, verifyEvent } from '@tributary/repo-verify'
import {
  callQuery,
  createLoad,
  delaysMs,
  eventIndexOf,
  fetchBytes,
  Load,
  percentile,
  registerLoad,
  serveLoad,
  startCountReader,
  startPlc,
} from './index.ts'
import type { ListedRepo } from './index.ts'

const directory = mkdtempSync(join(tmpdir(), 'tributary-load-'))
after(() => rmSync(directory, { recursive: true }))
const file = join(directory, 'load')
const parameters = { accounts: 20, commits: 1600, seed: 7 }
const info = await createLoad({ file, ...parameters })
const subscribe = '/xrpc/com.atproto.sync.subscribeRepos'

test('the same parameters give the same bytes, and are not made again', async () => {
  const again = join(directory, 'again')
  assert.deepEqual(await createLoad({ file: again, ...parameters }), info)
  for (const part of ['frames', 'index', 'json']) {
    const digest = (name: string) => hash('sha256', readFileSync(`${name}.${part}`), 'hex')
    assert.equal(digest(again), digest(file))
  }
  const { mtimeMs } = statSync(`${file}.frames`)
  await createLoad({ file, ...parameters })
  assert.equal(statSync(`${file}.frames`).mtimeMs, mtimeMs)
  const other = await createLoad({ file: again, ...parameters, seed: 8 })
  assert.notEqual(other.accounts[0]?.did, info.accounts[0]?.did)
})

test('every event is a valid continuation of its account, and most are creates', () => {
  using load = new Load(file)
  const heads = new Map<string, { rev: string; data: string }>()
  assert.equal(load.count, parameters.commits)
  for (let event = 0; event < load.count; event++) {
    const account = info.accounts[load.accountOf[event] ?? -1]
    const key = parseDidKey(account?.signingKey ?? '')
    const verified = verifyEvent(load.readMessage(event), { key, nowMs: Date.now(), strict: true })
    assert.ok(verified.ok && verified.kind === 'commit', JSON.stringify(verified))
    const { did, rev, since, prevData, data, ops, upstreamSeq } = verified
    assert.deepEqual([did, ops.length, upstreamSeq], [account?.did, 1, event + 1])
    assert.equal(eventIndexOf(info, rev), event)
    const before = heads.get(did)
    assert.deepEqual([since, prevData], [before?.rev ?? null, before?.data])
    heads.set(did, { rev, data })
  }
  const { create, update, delete: removed, recreate } = info.kinds
  assert.equal(create + update + removed + recreate, parameters.commits)
  assert.ok(create / parameters.commits > 0.8 && update > 0 && removed > 0 && recreate > 0)
})

test('readers of several hosts get all events, from their cursors, as fast as they can', async () => {
  await using hosts = await serveLoad({ file, hosts: 2 })
  using load = new Load(file)
  const [even, odd] = hosts.hosts
  const evenCount = load.accountOf.filter((account) => account % 2 === 0).length
  await using first = await startCountReader({ url: `ws://${even}${subscribe}`, connections: 3 })
  await using second = await startCountReader({ url: `ws://${odd}${subscribe}?cursor=0` })
  assert.equal(await hosts.play(), parameters.commits)
  await first.waitFor(evenCount)
  await second.waitFor(parameters.commits - evenCount)
  const report = await first.report()
  assert.deepEqual([report.messages, report.messagesMin, report.open], [3 * evenCount, evenCount, 3])
  assert.equal(report.bytes / 3 + (await second.report()).bytes, messageBytes(load))

  const cursor = 1000
  const later = load.accountOf.subarray(cursor).filter((account) => account % 2 === 0).length
  await using third = await startCountReader({ url: `ws://${even}${subscribe}?cursor=${cursor}` })
  await third.waitFor(later)
  assert.equal((await third.report()).messages, later)
})

test('readers may each have a query of their own, and come from several addresses', async () => {
  await using host = await serveLoad({ file })
  const queriesFile = join(directory, 'queries')
  writeFileSync(queriesFile, 'cursor=0\ncursor=1000\ncursor=1500')
  await host.play()
  await using reader = await startCountReader({
    url: `ws://127.0.0.1:${host.hosts[0]?.split(':')[1]}${subscribe}`,
    connections: 3,
    queriesFile,
    addresses: 2,
  })
  const all = 1600 + 600 + 100
  await reader.waitForTotal(all)
  const { messages, messagesMin, messagesMax } = await reader.report()
  assert.deepEqual([messages, messagesMin, messagesMax], [all, 100, 1600])
})

/** Size of all messages without their WebSocket headers. */
function messageBytes(load: Load): number {
  let total = 0
  for (let event = 0; event < load.count; event++) total += load.readMessage(event).length
  return total
}

test('at a rate, the delay of every event is known', async () => {
  await using host = await serveLoad({ file, addresses: ['127.0.0.9'] })
  assert.match(host.hosts[0] ?? '', /^127\.0\.0\.9:/)
  await using reader = await startCountReader({ url: `ws://${host.hosts[0]}${subscribe}`, measures: info })
  assert.equal(await host.play({ rate: 2000, count: 100 }), 100)
  await reader.waitFor(100)
  const delays = delaysMs(await host.sendTimesMs(), await reader.arrivalsMs())
  assert.equal(delays.length, 100)
  assert.ok(percentile(delays, 0.5) > 0 && percentile(delays, 0.5) <= percentile(delays, 1))
  assert.equal(await host.play({ count: 5 }), 105)
  await reader.waitFor(105)
})

test('a cursor ahead of what was played is refused, and the reader tells why it was closed', async () => {
  await using host = await serveLoad({ file })
  await using reader = await startCountReader({ url: `ws://${host.hosts[0]}${subscribe}?cursor=1` })
  await reader.waitFor(1)
  await reader.waitForClose()
  assert.deepEqual((await reader.report()).closes, { '1008 FutureCursor': 1 })
})

test('the host is the PLC directory and the PDS of its accounts', async () => {
  await using host = await serveLoad({ file, hosts: 2 })
  await host.play()
  const resolver = new IdResolver({ plcUrl: host.plcUrl, fetch })
  const url = `http://${host.hosts[1]}`
  const account = info.accounts[1]
  assert.ok(account)
  const identity = await resolver.did.resolveAtprotoData(account.did)
  assert.deepEqual(
    [identity.pds, identity.signingKey, identity.handle],
    [url, account.signingKey, account.handle],
  )
  assert.equal(await resolver.did.resolve('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'), null)

  const list = 'com.atproto.sync.listRepos'
  const page = await callQuery<{ repos: ListedRepo[]; cursor: string }>(url, list, { params: { limit: 6 } })
  const rest = await callQuery<{ repos: ListedRepo[]; cursor?: string }>(url, list, {
    params: { cursor: page.cursor },
  })
  const listed = [...page.repos, ...rest.repos]
  assert.deepEqual(
    listed.map(({ did }) => did),
    info.accounts.filter((_, index) => index % 2 === 1).map(({ did }) => did),
  )
  assert.equal(rest.cursor, undefined)

  const params = { did: account.did }
  const car = await fetchBytes(url, 'com.atproto.sync.getRepo', { params })
  const { creates, commit } = await verifyRepoCar(car, account.did, account.signingKey)
  assert.ok(creates.length > 20)
  assert.equal(listed[0]?.head, commit.cid.toString())
  const latest = await callQuery<{ cid: string; rev: string }>(url, 'com.atproto.sync.getLatestCommit', {
    params,
  })
  assert.deepEqual([latest.cid, latest.rev], [listed[0]?.head, listed[0]?.rev])
  const elsewhere = { params: { did: info.accounts[0]?.did } }
  await assert.rejects(fetchBytes(url, 'com.atproto.sync.getRepo', elsewhere), { error: 'RepoNotFound' })
})

test('the accounts of a load can be registered in a real PLC directory', async () => {
  await using plc = await startPlc()
  const small = join(directory, 'small')
  const { accounts } = await createLoad({ file: small, accounts: 3, commits: 3, seed: 1 })
  await registerLoad({ file: small, plcUrl: plc.url, hosts: ['localhost:1', 'localhost:2'] })
  const resolver = new IdResolver({ plcUrl: plc.url, fetch })
  const documents = await Promise.all(accounts.map(({ did }) => resolver.did.resolveAtprotoData(did)))
  assert.deepEqual(
    documents.map(({ pds }) => pds),
    ['http://localhost:1', 'http://localhost:2', 'http://localhost:1'],
  )
  assert.deepEqual(
    documents.map(({ signingKey }) => signingKey),
    accounts.map(({ signingKey }) => signingKey),
  )
})
