/** Accounts that move between hosts without pause while they write. `SEED` repeats a run. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import {
  eventually,
  migrateAccount,
  randomFrom,
  sampleRecord,
  startNetwork,
  startPlc,
  startScriptedHost,
  testSeed,
  type Account,
  type ScriptedAccount,
} from '@tributary/testkit'
import { startFailingDirectory } from './failing-directory.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { LateHome } from './late-home.ts'
import { faultOf, move, newMoving, write, type OutEvent } from './moving-account.ts'
import { startTestRelay, type TestRelay } from './start-test-relay.ts'

const collection = 'org.impact.collection'
const accountCount = 8
const movesEach = 2

async function answer(relay: TestRelay, method: string, did: string): Promise<Record<string, unknown>> {
  const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.${method}?did=${encodeURIComponent(did)}`)
  return (await response.json()) as Record<string, unknown> // XRPC answers are objects
}

function outOf(reader: FirehoseReader, { did }: { did: string }): OutEvent[] {
  return reader.frames.flatMap(({ t, body }, at): OutEvent[] => {
    const { repo, rev, since } = body
    if ((t !== '#commit' || repo !== did) && (t !== '#sync' || body['did'] !== did)) return []
    const kind = t === '#commit' ? 'commit' : 'sync'
    return [
      {
        kind,
        rev: String(rev),
        since: typeof since === 'string' ? since : undefined,
        atMs: reader.arrivedMs[at] ?? 0,
      },
    ]
  })
}

/** Events of an account that came out, in brief. */
function told(reader: FirehoseReader, { did }: ScriptedAccount | Account): string[] {
  return reader.frames
    .filter(({ body }) => body['did'] === did || body['repo'] === did)
    .map(({ t = '', body: { rev, status, active } }) => `${t} ${JSON.stringify(rev ?? status ?? active)}`)
}

test('whatever two hosts say first, each commit of the host of the moment passes, or a #sync makes up for it', async () => {
  const seed = testSeed()
  const random = randomFrom(seed)
  const plc = await startPlc()
  const directory = await startFailingDirectory(plc.url)
  const addresses = ['127.0.0.1', '127.0.0.5', '127.0.0.6']
  const hosts = await Promise.all(addresses.map((address) => startScriptedHost({ plcUrl: plc.url, address })))
  await using relay = await startTestRelay({ plcUrl: directory.url, sources: hosts.map(({ host }) => host) })
  using reader = new FirehoseReader(relay.url, 0)
  const homes = hosts.map((host) => new LateHome(host, () => (random.next() < 0.7 ? 0 : random.below(60))))
  try {
    const movings = await Promise.all(
      Array.from({ length: accountCount }, (_, n) => newMoving(homes[n % homes.length] ?? assert.fail())),
    )
    await reader.until(() => movings.every(({ account }) => outOf(reader, account).length > 0))
    directory.delayMs = () => random.below(200)
    const live = async (moving: (typeof movings)[number]): Promise<void> => {
      for (let n = 0; n < movesEach; n++) {
        write(moving, random.below(4))
        if (random.next() < 0.3) await pause(random.below(300))
        await move(moving, random.pick(homes.filter((home) => home !== moving.home)), random)
      }
    }
    await Promise.all(movings.map(live))
    await Promise.all(homes.map(async (home) => await home.sent()))
    for (const { account, revs, story } of movings) {
      const fault = () => faultOf(outOf(reader, account), revs)
      const seen = () => ({ seed, fault: fault(), story, revs, told: told(reader, account) })
      await eventually(() => fault() === undefined, seen)
      await eventually(
        async () => (await answer(relay, 'getRepoStatus', account.did))['active'] === true,
        seen,
      )
      assert.equal((await answer(relay, 'getLatestCommit', account.did))['rev'], account.rev, `seed ${seed}`)
    }
  } finally {
    await Promise.all(hosts.map(async (host) => await host.stop()))
    directory.close()
    await plc.stop()
  }
})

test('accounts that move between three PDSs while they write lose nothing', async () => {
  await using network = await startNetwork({ pds: 3 })
  await using relay = await startTestRelay({
    plcUrl: network.plcUrl,
    sources: network.pds.map(({ host }) => host),
  })
  using reader = new FirehoseReader(relay.url, 0)
  const live = async (pds: number): Promise<Account> => {
    const account = await network.createAccount({ pds })
    const writeTwice = async (): Promise<void> => {
      await account.create(collection, sampleRecord(collection))
      await account.create(collection, sampleRecord(collection))
    }
    await writeTwice()
    for (const step of [1, 2]) {
      await migrateAccount(account, network.pds[(pds + step) % 3] ?? assert.fail())
      await writeTwice()
    }
    return account
  }
  const accounts = await Promise.all([0, 1, 2].map(live))
  for (const account of accounts) {
    const latest = async () => (await answer(relay, 'getLatestCommit', account.did))['rev']
    const { rev } = (await (
      await fetch(`${account.pds.url}/xrpc/com.atproto.sync.getLatestCommit?did=${account.did}`)
    ).json()) as { rev: string } // as the lexicon has it
    await eventually(
      async () => (await latest()) === rev,
      () => told(reader, account),
    )
    assert.equal((await answer(relay, 'getRepoStatus', account.did))['active'], true)
    await reader.until(() => outOf(reader, account).at(-1)?.rev === rev)
    const out = outOf(reader, account)
    const revs = out.map((event) => event.rev)
    assert.equal(faultOf(out, revs), undefined)
    // Each write comes out, unless a #sync made up for it.
    const ops = reader.opsOf(account.did)
    const isComplete = ops.length === account.journal.length
    assert.ok(isComplete || out.at(-1)?.kind === 'sync', JSON.stringify(told(reader, account)))
    if (isComplete) assert.deepEqual(ops, account.journal)
  }
})
