/** Accounts that are to be had again, though no `#account` event says so. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually, type ScriptedAccount, startPlc, startScriptedHost } from '@tributary/testkit'
import { EventReader, type StreamMessage } from './event-reader.ts'
import { startSlowPlc } from './slow-plc.ts'
import { startTestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'

/** The key of each record, the kind of each marker. */
function briefly({ $type, rkey }: StreamMessage): string {
  return typeof rkey === 'string' ? rkey : ($type.split('#')[1] ?? '')
}

/** What a reader from the start on gets, until all of it has come in this order. */
async function seenBy(url: string, ...wanted: readonly string[]): Promise<string[]> {
  using reader = await EventReader.open(url, { cursor: 0 })
  const seen = (): string[] => reader.messages.map(briefly)
  await reader.until(() => {
    let found = 0
    for (const each of seen()) if (each === wanted[found]) found++
    return found === wanted.length
  })
  return seen()
}

test('an account that is active again gets its records shown though the event that said so was lost', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'lost-account-'))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    response.writeHead(200).end(JSON.stringify({ hosts: [{ hostname: host.host }] }))
  })
  const settings = {
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    allowedPrivateHosts: ['localhost'],
    collections: [follow],
    backfill: 'on' as const,
    backfillSettleSeconds: 0,
  }
  const account = await host.createAccount({ announce: false })
  {
    await using stream = await startTestStream(settings)
    account.create(follow, {}, 'a')
    await seenBy(stream.url, 'a')
    account.setStatus('deactivated')
    await seenBy(stream.url, 'account')
  }
  account.setStatus(undefined)
  host.forgetThrough(host.lastSeq)
  {
    await using stream = await startTestStream(settings)
    account.create(follow, {}, 'b')
    // What was before the marker is read again with the repository, also for those who were there already.
    await seenBy(stream.url, 'account', 'sync', 'a', 'b')
  }
  await using again = await startTestStream(settings)
  account.create(follow, {}, 'c')
  const seen = await seenBy(again.url, 'c')
  assert.deepEqual(seen.slice(0, 2), ['a', 'account'])
  // No event is made up in its name.
  assert.equal(seen.filter((each) => each === 'account').length, 1)
})

/** A stream that was done with a PDS before the document of its account was there, and then hears of the account. */
async function hearsOf(
  bring: (account: ScriptedAccount) => void,
  ...wanted: readonly string[]
): Promise<void> {
  await using plc = await startPlc()
  await using slowPlc = await startSlowPlc(plc.url)
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    response.writeHead(200).end(JSON.stringify({ hosts: [{ hostname: host.host }] }))
  })
  const account = await host.createAccount({ announce: false })
  account.commit([{ action: 'create', collection: follow, rkey: 'a', record: {} }])
  slowPlc.answer(account.did, 404)
  await using stream = await startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: slowPlc.url,
    allowedPrivateHosts: ['localhost'],
    collections: [follow],
    backfill: 'on',
    backfillSettleSeconds: 0,
  })
  const coverage = async (): Promise<string> =>
    await (await fetch(`${stream.url}/xrpc/network.social.stream.getCoverage`)).text()
  await eventually(async () => /"complete".*"unavailable":1\D/.test(await coverage()), coverage)
  slowPlc.answer(account.did, 200)
  bring(account)
  await seenBy(stream.url, ...wanted)
}

test('an account that nobody had when its PDS was read is read when its identity changes', async () => {
  await hearsOf((account) => account.announceIdentity(), 'identity', 'a')
})

test('an account that nobody had when its PDS was read is read when it writes', async () => {
  const bring = (account: ScriptedAccount): void => {
    account.announceIdentity()
    account.create(follow, {}, 'b')
  }
  await hearsOf(bring, 'identity', 'b', 'sync', 'a', 'b')
})
