/** What is known of accounts and sources after a kill, from the log alone. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { EventLog } from '@tributary/event-log'
import type { Did } from '@tributary/protocol'
import { readMessage, trustMessage } from '@tributary/repo-verify'
import { commitBody, encodeEvent, SignedRepo, Signer, syncBody } from '@tributary/testkit'
import { sampleSource } from '../../tests/sample-source.ts'
import { LogWriter } from '../pipeline/log-writer.ts'
import { ownAccountMessage } from '../pipeline/plain-events.ts'
import { accountKind, partialSyncKind, recordKinds } from '../pipeline/record-kinds.ts'
import type { Account } from './account.ts'
import { recoverState } from './recover-state.ts'
import { StateStore } from './state-store.ts'
import { StateTrail } from './state-trail.ts'

const did = `did:plc:${'a'.repeat(24)}` as Did // of the right form
const nowMs = 1_800_000_000_000

/** A log that nothing was folded from, and what writes into it. */
async function logOf(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'recover-state-'))
  const log = await EventLog.open({ directory: join(directory, 'log') })
  let states = 0
  let upstreamSeqs = 0
  const open: AsyncDisposable[] = []
  const newState = (appliedSeq = 0) => {
    const path = join(directory, `${states++}.sqlite`)
    if (appliedSeq > 0) {
      const before = new StateStore(path)
      before.write({ appliedSeq, forgotten: [], accounts: [], collections: [], sources: [], identities: [] })
      open.push({ [Symbol.asyncDispose]: () => before.close() })
      return before.whenWritten().then(() => stateAt(path))
    }
    return Promise.resolve(stateAt(path))
  }
  const stateAt = (path: string) => {
    const store = new StateStore(path)
    const source = sampleSource()
    const trail = new StateTrail(store, () => [source])
    open.push({
      async [Symbol.asyncDispose]() {
        await trail.close()
        await store.close()
      },
    })
    return { store, source, trail }
  }
  t.after(async () => {
    for (const each of open) await each[Symbol.asyncDispose]()
    await log.close()
    rmSync(directory, { recursive: true })
  })
  const { store, trail } = await newState()
  const writer = new LogWriter(log, trail, () => undefined)
  const account = store.accounts.take(did)
  return {
    log,
    /** Logs the account as it is after a change, as the relay says it. @param upstreamSeq 0: by the relay's own doing. */
    say: (change: Partial<Account>, upstreamSeq: number, epoch = 1, of: Did = did): void => {
      const account = store.accounts.take(of)
      store.accounts.assign(account, 1, change.upstreamStatus ?? account.upstreamStatus)
      Object.assign(account, change)
      const origin = { kind: accountKind(account), source: 1, epoch, upstreamSeq }
      writer.append(origin, account, ownAccountMessage(account, nowMs))
    },
    /** Logs a commit or sync as it came. */
    write: (frame: Uint8Array, kind: number): void => {
      const message = readMessage(frame)
      assert.ok(message.ok && 'did' in message)
      store.accounts.assign(account, 1, 'active')
      writer.append({ kind, source: 1, epoch: 1, upstreamSeq: ++upstreamSeqs }, account, message)
    },
    /** What is known after a start that has nothing but the log, or a state that claims to account for some of it. */
    restart: async (appliedSeq = 0, quota = Infinity) => {
      await log.flush()
      const state = await newState(appliedSeq)
      state.store.accounts.quotaOf = () => quota
      const sources = {
        byId: (id: number) => (id === 1 ? state.source : undefined),
        byHost: (host: string) => (host === state.source.host ? state.source : undefined),
      }
      await recoverState({ log, sources, ...state })
      const found = state.store.accounts.get(did)
      return {
        source: state.source,
        accounts: state.store.accounts,
        account: found ?? assert.fail('the account is not known'),
      }
    },
  }
}

test('what an operator decided of an account, and what its host says, is known apart', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'active' }, 1)
  say({ localStatus: 'takendown' }, 0)
  say({ upstreamStatus: 'deactivated' }, 2)
  const { account } = await restart()
  assert.deepEqual([account.localStatus, account.upstreamStatus], ['takendown', 'deactivated'])
  say({ localStatus: undefined }, 0)
  const lifted = await restart()
  assert.deepEqual([lifted.account.localStatus, lifted.account.upstreamStatus], [undefined, 'deactivated'])
  assert.ok(lifted.account.isIncomplete, 'what was left out meanwhile is missing')
})

test('an account without a slot has none, and one that was given a slot is marked until it is made whole', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'active', throttledAtMs: nowMs }, 1)
  const waiting = await restart()
  assert.ok(waiting.account.throttledAtMs > 0)
  assert.equal(waiting.account.isIncomplete, false)
  say({ throttledAtMs: 0 }, 2)
  const letIn = await restart()
  assert.deepEqual([letIn.account.throttledAtMs, letIn.account.isIncomplete], [0, true])
})

test('an account without a slot that an operator takes down has none after a start', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'active', throttledAtMs: nowMs }, 1)
  say({ localStatus: 'takendown' }, 0)
  const { account } = await restart()
  assert.equal(account.localStatus, 'takendown')
  assert.ok(account.throttledAtMs > 0)
})

test('an account that moved to a full host while an operator hid it has no slot after a start', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'active', localStatus: 'suspended', throttledAtMs: nowMs }, 1)
  assert.ok((await restart(0, 0)).account.throttledAtMs > 0)
  assert.equal((await restart(0, 1)).account.throttledAtMs, 0)
  // Another account that waited for a slot gets the one that has come free since.
  const other = `did:plc:${'b'.repeat(24)}` as Did // of the right form
  say({ upstreamStatus: 'active' }, 0, 1, other)
  const { account, accounts } = await restart(0, 1)
  assert.ok(account.throttledAtMs > 0)
  assert.equal(accounts.activeOf(1), 1)
})

test('an account that this relay announced as active again is marked until it is made whole, one of which its host said so is not', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'deactivated' }, 1)
  say({ upstreamStatus: 'active' }, 2)
  assert.equal((await restart()).account.isIncomplete, false)
  say({ upstreamStatus: 'deactivated' }, 3)
  say({ upstreamStatus: 'active' }, 0)
  assert.equal((await restart()).account.isIncomplete, true)
})

test('an account that this relay announced as active is marked, also when the log lost the word that it was not', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'active' }, 1)
  say({}, 0)
  assert.equal((await restart()).account.isIncomplete, true)
})

test('what the log has of a source is not logged again, and a numbering that began anew is known', async (t) => {
  const { say, restart } = await logOf(t)
  say({ upstreamStatus: 'active' }, 7)
  const { source } = await restart()
  assert.deepEqual([source.epoch, source.fateOf(did, 7), source.fateOf(did, 8)], [1, 'done', undefined])
  say({ upstreamStatus: 'deactivated' }, 3, 2)
  const later = await restart()
  assert.deepEqual(
    [later.source.epoch, later.source.cursor, later.source.fateOf(did, 3), later.source.fateOf(did, 7)],
    [2, 0, 'done', undefined],
  )
})

test('the revision and the tree of the last commit are known, so that a break of the chain is noticed', async (t) => {
  const { write, restart } = await logOf(t)
  const repo = new SignedRepo(did, Signer.fromSeed('recover-state'))
  const commitOf = (rkey: string) =>
    repo.commit([{ action: 'create', collection: 'a.b.c', rkey, record: {} }])
  const known = []
  for (const rkey of ['a', 'b']) {
    const frame = encodeEvent('#commit', {
      seq: 1,
      time: new Date(nowMs).toISOString(),
      ...commitBody(commitOf(rkey)),
    })
    write(frame, recordKinds.commit)
    const message = readMessage(frame)
    assert.ok(message.ok && message.kind === 'commit')
    const commit = trustMessage(message)
    assert.ok(commit.ok && commit.kind === 'commit')
    const { account } = await restart()
    assert.deepEqual([account.rev, account.data, account.commit], [commit.rev, commit.data, commit.commit])
    known.push(account.data)
  }
  assert.notEqual(known[0], known[1])
})

test('an account of which more was left out than a #sync of ours has is marked until it is made whole', async (t) => {
  const { write, restart } = await logOf(t)
  const { rev, commit } = new SignedRepo(did, Signer.fromSeed('recover-state')).commit([])
  const time = new Date(nowMs).toISOString()
  const frame = encodeEvent('#sync', { seq: 1, time, ...syncBody(did, rev, commit) })
  for (const [kind, isIncomplete] of [
    [partialSyncKind, true],
    [recordKinds.sync, false],
  ] as const) {
    write(frame, kind)
    assert.equal((await restart()).account.isIncomplete, isIncomplete)
  }
})

test('a state that knows of one record more than the log has is refused', async (t) => {
  const { log, say, restart } = await logOf(t)
  say({ upstreamStatus: 'active' }, 1)
  await log.flush()
  await assert.rejects(restart(log.visibleSeq + 1), /the state is ahead of the log/)
})
