import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import type { Did } from '@tributary/protocol'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import { Source } from '../sources/source.ts'
import { AccountTable } from '../state/account-table.ts'
import { prepare } from '../state/schema.ts'
import { storedAccounts } from '../state/stored-accounts.ts'
import { LossWalks } from './loss-walks.ts'

const did = (name: string): Did => `did:plc:${name.padStart(24, 'a')}` as Did // of the right form
const minuteMs = 60_000

interface Walked {
  accounts: AccountTable
  clock: TestClock
  source: Source
  /** Accounts that were asked for. */
  asked: Did[]
  /** Sets the clock back. */
  setBack: (ms: number) => void
}

/** Walks through accounts of source 1, which is caught up. Those of source 2 are between them. */
function walkOver(
  names: readonly string[],
  hasRoom: () => boolean = () => true,
  waiting: ReadonlySet<Did> = new Set(),
): Walked {
  const accounts = new AccountTable()
  const clock = new TestClock()
  const source = sampleSource(() => clock.nowMs())
  for (const name of names) {
    accounts.assign(accounts.take(did(`${name}2`)), 2, 'active')
    accounts.assign(accounts.take(did(name)), source.id, 'active')
  }
  return walkThrough(accounts, source, clock, hasRoom, waiting)
}

function walkThrough(
  accounts: AccountTable,
  source: Source,
  clock: TestClock,
  hasRoom: () => boolean = () => true,
  waiting: ReadonlySet<Did> = new Set(),
): Walked {
  source.reading.open()
  const asked: Did[] = []
  const walks = new LossWalks({
    accounts,
    clock,
    sources: () => [source],
    bringerOf: () => source,
    ask: (account) => {
      if (hasRoom()) asked.push(account.did)
      return hasRoom()
    },
    isWaiting: (did) => waiting.has(did),
    onFar: (walked, lostAtMs, fromDid) => {
      walked.noteWalk(lostAtMs, fromDid, 0)
      walked.stored(0)
    },
    onOver: (over) => over.endLoss(0),
  })
  clock.every(250, () => walks.step())
  const setBack = (ms: number): void => {
    clock.setBack(ms)
    walks.setBack(ms)
  }
  return { accounts, clock, source, asked, setBack }
}

test('each active account of a source that lost events is asked for once, one a second', async () => {
  const { accounts, clock, source, asked } = walkOver(['a', 'b', 'c', 'd'])
  accounts.take(did('b')).upstreamStatus = 'deactivated'
  await clock.pass(minuteMs)
  assert.deepEqual(asked, [], 'nothing was lost')
  source.lostAtMs = clock.nowMs()
  await clock.pass(6500)
  assert.deepEqual(asked, [did('a'), did('c')])
  await clock.pass(minuteMs)
  assert.deepEqual(asked, [did('a'), did('c'), did('d')])
  assert.equal(source.lostAtMs, 0)
})

test('a source is read for a while before its accounts are asked for', async () => {
  const { clock, source, asked } = walkOver(['a'])
  await clock.pass(minuteMs)
  source.lostAtMs = clock.nowMs()
  await clock.pass(4000)
  source.lastConnectedAtMs = clock.nowMs()
  await clock.pass(4000)
  assert.deepEqual(asked, [])
  await clock.pass(2000)
  assert.deepEqual(asked, [did('a')])
})

test('an account for which there is no room is asked for later', async () => {
  let hasRoom = false
  const { clock, source, asked } = walkOver(['a', 'b'], () => hasRoom)
  source.lostAtMs = clock.nowMs()
  await clock.pass(minuteMs)
  hasRoom = true
  await clock.pass(minuteMs)
  assert.deepEqual(asked, [did('a'), did('b')])
})

test('a loss is over when nobody waits any more who was asked for', async () => {
  const waiting = new Set([did('a')])
  const { clock, source, asked } = walkOver(['a', 'b'], undefined, waiting)
  source.lostAtMs = clock.nowMs()
  await clock.pass(3 * 60 * minuteMs)
  assert.deepEqual(asked, [did('a'), did('b')])
  assert.ok(source.lostAtMs > 0)
  waiting.clear()
  await clock.pass(1000)
  assert.equal(source.lostAtMs, 0)
})

for (const [when, seconds] of [
  ['before its accounts are asked for', 1],
  ['while they are asked for', 6],
] as const)
  test(`after a clock was set back ${when} each account is asked for once`, async () => {
    const { clock, source, asked, setBack } = walkOver(['a', 'b', 'c'])
    await clock.pass(minuteMs)
    source.lostAtMs = clock.nowMs()
    await clock.pass(seconds * 1000)
    setBack(365 * 24 * 60 * minuteMs)
    source.reading.close()
    source.reading.open()
    await clock.pass(6 * 60 * minuteMs)
    assert.deepEqual(asked, [did('a'), did('b'), did('c')])
    assert.equal(source.lostAtMs, 0)
  })

test('a source that loses events all the time has its accounts asked for once an hour', async () => {
  const { clock, source, asked } = walkOver(['a'])
  for (let minute = 0; minute < 3 * 60; minute++) {
    source.lostAtMs = clock.nowMs()
    await clock.pass(minuteMs)
  }
  assert.equal(asked.length, 3)
})

/** Accounts of source 1 as they are after a start: those of did:web are in no order. */
function startedWith(dids: readonly string[]): AccountTable {
  const db = new Database(':memory:')
  prepare(db)
  const insert =
    db.prepare(`INSERT INTO account (did, source_id, upstream_status, rev, commit_digest, data_digest, is_desynchronized)
    VALUES (?, 1, 'active', '3l22222222222', zeroblob(32), zeroblob(32), 0)`)
  for (const each of dids) insert.run(each)
  const accounts = new AccountTable(storedAccounts(db))
  db.close()
  return accounts
}

for (const [when, waiting, goesOnAt] of [
  ['', [], 176],
  [' before an account that still waited', [did('a150')], 50],
] as const)
  test(`a walk that a stop has ended goes on where it was${when}, and leaves nobody out`, async () => {
    const clock = new TestClock()
    const first = sampleSource(() => clock.nowMs())
    const names = Array.from({ length: 200 }, (_, n) => did(`a${100 + n}`))
    const web = ['did:web:a.example.com', 'did:web:b.example.com'] as Did[] // of the right form
    const accounts = startedWith([...names, ...web])
    // They are new in this process, and have their place in the order at the next start.
    const late = did('a101a')
    accounts.assign(accounts.take(late), 1, 'active')
    const { asked } = walkThrough(accounts, first, clock, undefined, new Set(waiting))
    first.lostAtMs = clock.nowMs()
    await clock.pass(195_000)
    assert.deepEqual(asked.slice(0, 4), [...web, late, names[0]])
    const stored = first.stored(0)
    const decided = { ...stored, policy: first.policy, addedAtMs: 0 }
    const second = new Source(stored, decided, () => clock.nowMs())
    const again = walkThrough(startedWith([...names, ...web, late]), second, clock)
    await clock.pass(300_000)
    assert.deepEqual(again.asked, [...web, ...names.slice(goesOnAt)])
    assert.equal(second.lostAtMs, 0)
    second.lostAtMs = clock.nowMs()
    await clock.pass(2 * 3_600_000)
    const later = again.asked.slice(web.length + names.length - goesOnAt)
    assert.deepEqual(later, [...web, late, ...names], 'a later loss begins with the first account')
  })
