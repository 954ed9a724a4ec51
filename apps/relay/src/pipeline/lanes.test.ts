import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import type { Source } from '../sources/source.ts'
import { newEvent, type UpstreamEvent } from '../sources/upstream-event.ts'
import { newAccount, type Account } from '../state/account.ts'
import { Lanes } from './lanes.ts'

function accountOf(i: number): Account {
  return newAccount(`did:plc:${String(i).padStart(24, 'a')}` as Did) // lanes do not look at it
}

test('a source is not read on while many of its accounts wait, and a single one never stops it', () => {
  const source = sampleSource()
  const known = new Set<Account>()
  const told: boolean[] = []
  const lanes = new Lanes({
    start: (_, account) => known.has(account),
    onFull: () => assert.fail('there is room'),
    onManyWaiting: (_, areMany) => told.push(areMany),
    onCrowded: () => {},
    onUnblocked: () => {},
    onEmpty: () => {},
  })
  let upstreamSeq = 0
  const enter = (account: Account): void =>
    lanes.enter(newEvent(source, sampleMessage(++upstreamSeq)), account)

  const stuck = accountOf(0)
  for (let i = 0; i < 900; i++) enter(stuck)
  assert.deepEqual([source.waitingAccounts, told], [1, []])

  const fresh = Array.from({ length: 200 }, (_, i) => accountOf(i + 1))
  for (const account of fresh) enter(account)
  assert.deepEqual([source.waitingAccounts, told], [201, [true]])
  for (const account of fresh) {
    known.add(account)
    lanes.wake(account)
  }
  assert.deepEqual([source.waitingAccounts, told], [1, [true, false]])
  assert.equal(lanes.waitingBytes, 9000)
  // Those whose documents cannot be had do not count, until nothing of them waits any more.
  const unreadable = Array.from({ length: 200 }, (_, i) => accountOf(i + 201))
  for (const account of unreadable) {
    enter(account)
    lanes.discount(account)
    enter(account)
  }
  assert.deepEqual([source.waitingAccounts, told], [1, [true, false]])
  for (const account of unreadable) {
    known.add(account)
    lanes.wake(account)
    known.delete(account)
    enter(account)
  }
  assert.deepEqual([source.waitingAccounts, told], [201, [true, false, true]])
})

test('an event that stood aside starts before those of its source that came while it did', () => {
  const [before, after] = [sampleSource(), sampleSource()]
  const account = accountOf(0)
  const started: UpstreamEvent[] = []
  let isReady = false
  const lanes = new Lanes({
    start: (event) => isReady && started.push(event) > 0,
    onFull: () => assert.fail('there is room'),
    onManyWaiting: () => {},
    onCrowded: () => {},
    onUnblocked: () => {},
    onEmpty: () => {},
  })
  const eventOf = (source: Source, upstreamSeq: number): UpstreamEvent =>
    newEvent(source, sampleMessage(upstreamSeq))
  const [moved, sync, commit, late, farewell] = [
    eventOf(after, 14),
    eventOf(after, 16),
    eventOf(after, 17),
    eventOf(after, 20),
    eventOf(before, 5),
  ]
  for (const event of [moved, late, farewell]) lanes.enter(event, account)
  for (const event of [sync, commit]) lanes.enterAgain(event, account)
  isReady = true
  lanes.wake(account)
  assert.deepEqual(started, [moved, sync, commit, late, farewell])
  lanes.enterAgain(late, account)
  assert.equal(started.at(-1), late)
})

test('what one source has waiting is bounded, whatever the number of accounts, and takes nothing from the others', () => {
  const [greedy, other] = [sampleSource(), sampleSource()]
  const full: UpstreamEvent[] = []
  let isReady = false
  const lanes = new Lanes({
    start: () => isReady,
    onFull: (event) => full.push(event),
    onManyWaiting: () => {},
    onCrowded: () => {},
    onUnblocked: () => {},
    onEmpty: () => {},
  })
  const accounts = Array.from({ length: 8 }, (_, i) => accountOf(i))
  const enterAll = (source: Source): void => {
    for (const account of accounts) {
      lanes.enter(newEvent(source, sampleMessage(1, 4_000_000)), account)
    }
  }
  enterAll(greedy)
  assert.deepEqual([full.length, greedy.waitingBytes], [4, 16_000_000])
  enterAll(other)
  assert.deepEqual([full.length, other.waitingBytes], [8, 16_000_000])
  isReady = true
  for (const account of accounts) lanes.wake(account)
  assert.deepEqual([greedy.waitingBytes, other.waitingBytes, lanes.waitingBytes], [0, 0, 0])
})
