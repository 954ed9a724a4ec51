/** What becomes of events that wait for the document of their account, which the account may keep from us. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decode } from '@atcute/cbor'
import { type RepeatingClock, systemClock } from '@tributary/lanes'
import { startPlc, startScriptedHost, type ScriptedAccount, type ScriptedHost } from '@tributary/testkit'
import { rowKind } from '@tributary/segment'
import { contentsOf } from './contents-of.ts'
import { type SlowPlc, startSlowPlc } from './slow-plc.ts'
import { startIngest, type TestIngest } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'
/** Events of one account that are held. */
const laneEventsMax = 1000
/** Bytes of all events that are held, and lanes that hold so many without being full. */
const waitingBytesMax = 64 * 1024 * 1024
const waitingLanes = 10

interface Waiting extends AsyncDisposable {
  host: ScriptedHost
  slowPlc: SlowPlc
  ingest: TestIngest
  account: ScriptedAccount
}

/** An account that has written a record, and whose document is not to be had any more. */
async function startWaiting(clock: RepeatingClock = systemClock): Promise<Waiting> {
  await using parts = new AsyncDisposableStack()
  const plc = parts.use(await startPlc())
  const host = parts.use(await startScriptedHost({ plcUrl: plc.url }))
  const slowPlc = parts.use(await startSlowPlc(plc.url))
  const directory = parts.use(await mkdtempDisposable(join(tmpdir(), 'waiting-')))
  const ingest = parts.use(
    await startIngest({ directory: directory.path, relayUrl: host.url, plcUrl: slowPlc.url, clock }),
  )
  const account = await host.createAccount({ announce: false })
  account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.length === 1)
  const asked = slowPlc.hold(account.did)
  parts.defer(() => slowPlc.release(account.did))
  account.announceIdentity()
  account.create(follow, {}, 'b')
  await asked
  const started = parts.move()
  return { host, slowPlc, ingest, account, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

test('a takedown counts though so much waits for the account that nothing more is held', async () => {
  await using waiting = await startWaiting()
  const { host, ingest, account } = waiting
  const other = await host.createAccount({ announce: false })
  for (let i = 0; i < laneEventsMax; i++) account.create(follow, {})
  account.setStatus('takendown')
  other.create(follow, {}, 'other')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'other')
  assert.equal(ingest.states.get(account.did)?.isHidden, true)
})

test('a takedown of an account that has filled its lane comes after what waited before it', async () => {
  await using waiting = await startWaiting()
  const { host, ingest, account, slowPlc } = waiting
  const other = await host.createAccount({ announce: false })
  account.setStatus('deactivated')
  for (let i = 0; i < laneEventsMax; i++) account.create(follow, {})
  account.setStatus('takendown')
  account.create(follow, {}, 'late')
  other.create(follow, {}, 'other')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'other')
  slowPlc.release(account.did)
  const ofAccount = ingest.rows.filter(({ did, kind }) => did === account.did && kind === rowKind.account)
  const statuses = ofAccount.map(({ payload }) => (decode(payload) as { status?: unknown }).status) // as archived
  assert.deepEqual(statuses, ['deactivated', 'takendown'])
  const { isHidden, needsRefetch } = ingest.states.get(account.did) ?? assert.fail('the account is known')
  assert.deepEqual([isHidden, needsRefetch], [true, true])
})

test('a takedown does not wait for long behind commits whose document does not come', async () => {
  const quick = { ...systemClock, after: (ms: number, call: () => void) => systemClock.after(ms / 50, call) }
  await using waiting = await startWaiting(quick)
  const { ingest, account } = waiting
  account.announceIdentity()
  account.create(follow, {}, 'c')
  account.setStatus('takendown')
  await ingest.until(() => ingest.rows.at(-1)?.kind === rowKind.account)
  const kinds = [rowKind.identity, rowKind.identity, rowKind.account]
  assert.deepEqual(
    ingest.rows.slice(1).map(({ kind }) => kind),
    kinds,
    'the others keep their order',
  )
  const { isHidden, needsRefetch } = ingest.states.get(account.did) ?? assert.fail('the account is known')
  assert.deepEqual([isHidden, needsRefetch], [true, true])
  account.setStatus('deactivated')
  await ingest.until(() => ingest.rows.at(-1)?.kind === rowKind.account && ingest.rows.length === 5)
  assert.match(await ingest.refused(), /identity-unavailable/)
})

test('an account event that waited while the relay began to number anew does not make later ones look old', async () => {
  await using waiting = await startWaiting()
  const { host, ingest, account, slowPlc } = waiting
  const accountRows = () => ingest.rows.filter(({ kind }) => kind === rowKind.account).length
  account.setStatus(undefined)
  host.restartNumbering()
  const other = await host.createAccount({ announce: false })
  other.create(follow, {}, 'other')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'other')
  slowPlc.release(account.did)
  await ingest.until(() => accountRows() === 1)
  account.setStatus('takendown')
  other.create(follow, {}, 'last')
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'last')
  assert.equal(ingest.states.get(account.did)?.isHidden, true)
})

test('an event that came before the clock was set back is held against a document that is read after that', async () => {
  let aheadMs = 0
  const clock = { ...systemClock, nowMs: () => Date.now() + aheadMs }
  await using waiting = await startWaiting(clock)
  const { ingest, account, slowPlc } = waiting
  slowPlc.release(account.did)
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'b')
  await account.rotateKey()
  const asked = slowPlc.hold(account.did)
  aheadMs = 86_400_000
  account.create(follow, {}, 'c')
  await asked
  aheadMs = 0
  slowPlc.release(account.did)
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'c')
})

test('a takedown counts though so much waits that the events before it are left out', async () => {
  // The wait of the takedown is bounded as well, which is not for this test.
  const slow = { ...systemClock, after: (ms: number, call: () => void) => systemClock.after(ms * 100, call) }
  await using waiting = await startWaiting(slow)
  const { host, ingest, account, slowPlc } = waiting
  for (let i = 0; i < 16; i++) account.announceIdentity()
  account.setStatus('takendown')
  const note = 'x'.repeat(waitingBytesMax / waitingLanes / 8)
  const others = await Promise.all(
    Array.from({ length: waitingLanes + 1 }, () => host.createAccount({ announce: false })),
  )
  for (const other of others) {
    slowPlc.answer(other.did, 503)
    for (let i = 0; i < 8; i++) other.create(follow, { note })
  }
  await ingest.until(() => ingest.rows.some(({ kind }) => kind === rowKind.account))
  const { isHidden, needsRefetch } = ingest.states.get(account.did) ?? assert.fail('the account is known')
  assert.deepEqual([isHidden, needsRefetch], [true, true])
})

test('a repository that may not wait for long among the events of its account is given up, and they go on', async () => {
  await using waiting = await startWaiting()
  const { ingest, account, slowPlc } = waiting
  const refill = async (): Promise<string> => {
    const begun: string[] = []
    const wish = { mayReplace: true, onWhole: () => {}, beginMsMax: 1, onBegin: () => begun.push('begun') }
    const { is } = await ingest.ingest.refill(contentsOf(account), wish)
    return [...begun, is].join()
  }
  assert.equal(await refill(), 'no-room')
  slowPlc.release(account.did)
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'b')
  // More than are written in a few turns.
  for (let n = 0; n < 190; n++) account.create(follow, {})
  await ingest.until(() => ingest.rows.length === 193)
  ingest.states.mark(account.did)
  assert.equal(await refill(), 'begun,whole', 'what has begun ends')
})
