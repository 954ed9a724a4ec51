/** Events that are verified on threads: what comes of them is what came of them without threads. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { test, type TestContext } from 'node:test'
import { decode } from '@atcute/cbor'
import { CheckedTrees } from '@tributary/repo-verify'
import { systemClock } from '@tributary/lanes'
import { rowKind } from '@tributary/segment'
import { eventually, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { SimulatedVerification } from '@tributary/testkit/simulation'
import type { EventLane, RelayEvent } from '../src/ingest/relay-event.ts'
import { verifierHere } from '../src/verify/verification.ts'
import type { Good } from '../src/verify/verified.ts'
import { contentsOf } from './contents-of.ts'
import { startIngest, type TestIngest, type TestIngestOptions } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'
const attested = new Set([follow])
const badge = 'app.attested.badge.award'

interface Tried extends AsyncDisposable {
  ingest: TestIngest
  accounts: ScriptedAccount[]
  /** Sends events until some that were sent together are verified on a thread. */
  beginThread(): Promise<void>
}

async function tryOut(t: TestContext, options: Partial<TestIngestOptions> = {}): Promise<Tried> {
  await using parts = new AsyncDisposableStack()
  const plc = parts.use(await startPlc())
  const host = parts.use(await startScriptedHost({ plcUrl: plc.url }))
  const directory = parts.use(await mkdtempDisposable(`${tmpdir()}/verification-`))
  const ingest = parts.use(
    await startIngest({ directory: directory.path, relayUrl: host.url, plcUrl: plc.url, ...options }),
  )
  const accounts: ScriptedAccount[] = []
  for (let i = 0; i < 3; i++) accounts.push(await host.createAccount({ announce: false }))
  // Each thread has trees of its own: this counts those that are looked up on the main thread.
  const lookUps = t.mock.method(CheckedTrees.prototype, 'has').mock
  const started = parts.move()
  return {
    ingest,
    accounts,
    async beginThread() {
      for (let before = -1; before !== lookUps.callCount();) {
        before = lookUps.callCount()
        const rows = ingest.rows.length
        for (const account of accounts) for (let i = 0; i < 4; i++) account.create(follow, {})
        await ingest.until(() => ingest.rows.length === rows + 12)
      }
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}

test('events that threads verify are archived in the order of each account, markers in their place', async (t) => {
  await using tried = await tryOut(t)
  const { ingest, accounts } = tried
  await tried.beginThread()
  const from = ingest.rows.length
  for (let i = 0; i < 100; i++)
    for (const account of accounts) {
      if (i % 10 === 3) account.announceIdentity({ handle: `h${i}.test` })
      else if (i % 10 === 5) account.delete(follow, `${i - 1}`)
      else account.create(follow, { text: 'x'.repeat(i * 10) }, `${i}`)
    }
  await ingest.until(() => ingest.rows.length === from + 300)
  const expected = Array.from({ length: 100 }, (_, i) => {
    if (i % 10 === 3) return 'identity'
    return i % 10 === 5 ? `delete ${i - 1}` : `create ${i} ${i * 10}`
  })
  for (const { did } of accounts) {
    const rows = ingest.rows.slice(from).filter((row) => row.did === did)
    const said = rows.map(({ kind, rkey, payload }) => {
      if (kind === rowKind.identity) return 'identity'
      if (kind === rowKind.delete) return `delete ${rkey}`
      const { text } = decode(payload) as { text: string } // as it was sent
      return `create ${rkey} ${text.length}`
    })
    assert.deepEqual(said, expected)
  }
})

test('a signature that threads refuse is checked again with a document that was read after it', async (t) => {
  await using tried = await tryOut(t)
  const { ingest, accounts } = tried
  await tried.beginThread()
  const from = ingest.rows.length
  const [first, second] = accounts
  assert.ok(first && second)
  first.create(follow, {}, 'with-old-key')
  await first.rotateKey()
  for (let i = 0; i < 5; i++) {
    first.create(follow, {}, `first-${i}`)
    second.create(follow, {}, `second-${i}`)
  }
  await ingest.until(() => ingest.rows.length === from + 11)
  const rkeys = ingest.rows.slice(from).map(({ rkey }) => rkey)
  assert.deepEqual(
    rkeys.filter((rkey) => rkey.startsWith('first')),
    Array.from({ length: 5 }, (_, i) => `first-${i}`),
  )
})

test('an event whose key a thread has forgotten is verified again, and those after it wait for that', async (t) => {
  const forgotten = [true, false, true, false, false, false, true]
  const verification = new SimulatedVerification<RelayEvent, EventLane, Good>({
    clock: systemClock,
    conditions: { of: () => 'forgetful', chance: () => forgotten.shift() ?? false, some: () => 0 },
    verify: verifierHere(() => attested),
  })
  await using tried = await tryOut(t, { verification, watched: () => attested })
  const { ingest, accounts } = tried
  for (const account of accounts) for (const rkey of ['a', 'b', 'c']) account.create(follow, {}, rkey)
  await ingest.until(() => ingest.rows.length === 9)
  for (const { did } of accounts) {
    const own = ingest.rows.filter((row) => row.did === did)
    assert.deepEqual(
      own.map(({ rkey }) => rkey),
      ['a', 'b', 'c'],
    )
  }
})

test('a repository is written after those events of its account that are being verified', async (t) => {
  const verdicts: (() => void)[] = []
  const later = (call: () => void): Disposable => {
    verdicts.push(call)
    return { [Symbol.dispose]: () => undefined }
  }
  const verification = new SimulatedVerification<RelayEvent, EventLane, Good>({
    clock: { nowMs: () => Date.now(), after: (_, call) => later(call) },
    conditions: { of: () => 'fair', chance: () => false, some: () => 0 },
    verify: verifierHere(() => attested),
  })
  await using tried = await tryOut(t, { verification, watched: () => attested })
  const { ingest, accounts } = tried
  const [account] = accounts
  assert.ok(account)
  // More than a refill writes in one turn.
  const rkeys = Array.from({ length: 100 }, (_, n) => `${100 + n}`)
  account.emitWrites(rkeys.map((rkey) => ({ action: 'create', collection: follow, rkey, record: {} })))
  const contents = contentsOf(account)
  account.delete(follow, '199')
  await eventually(() => verdicts.length === 2)
  const refilled = ingest.ingest.refill(contents, { mayReplace: true, onWhole: () => {} })
  for (const give of verdicts) give()
  assert.deepEqual(await refilled, { is: 'contents-behind' })
  await ingest.until(() => ingest.rows.length >= 101)
  assert.deepEqual(
    ingest.rows.map(({ rkey }) => rkey),
    [...rkeys, '199'],
  )
})

test('an event that was with a thread while a collection was added gives the rows of that collection', async (t) => {
  const [few, all] = [new Set([follow]), new Set([follow, badge])] as const
  let watched: ReadonlySet<string> = few
  let isAdding = false
  await using tried = await tryOut(t, {
    watched: () => watched,
    resolving: (resolver) => ({
      ...resolver,
      purge: (did, options) => resolver.purge(did, options),
      resolve: async (did, options) => await resolver.resolve(did, options),
      peek(did) {
        // After the events that came together are on their way, and before their verdicts.
        if (isAdding) queueMicrotask(() => (watched = all))
        return resolver.peek(did)
      },
    }),
  })
  const { ingest, accounts } = tried
  await tried.beginThread()
  const from = ingest.rows.length
  isAdding = true
  for (const account of accounts) for (let i = 0; i < 4; i++) account.create(badge, {}, `${i}`)
  await ingest.until(() => ingest.rows.length === from + 12)
  assert.ok(ingest.rows.slice(from).every(({ collection }) => collection === badge))
})
