import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import type { Source } from '../sources/source.ts'
import { AccountTable } from '../state/account-table.ts'
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
  source.reading.open()
  for (const name of names) {
    accounts.assign(accounts.take(did(`${name}2`)), 2, 'active')
    accounts.assign(accounts.take(did(name)), source.id, 'active')
  }
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
