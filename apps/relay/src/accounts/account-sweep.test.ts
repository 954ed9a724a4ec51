import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { TestClock } from '../../tests/test-clock.ts'
import type { Account } from '../state/account.ts'
import { AccountTable } from '../state/account-table.ts'
import { AccountSweep } from './account-sweep.ts'

const did = (name: string): Did => `did:plc:${name.padStart(24, 'a')}` as Did // of the right form
const unwantedSource = 9
const dayMs = 86_400_000

interface Swept {
  accounts: AccountTable
  clock: TestClock
  /** Accounts whose host was asked, in order, with the second in which that was. */
  asked: { did: Did; second: number }[]
  applied: string[]
  incomplete: Did[]
  sweep: AccountSweep
}

/** Sweeps over accounts of these statuses, all of source 1 unless their name says `of2` or `unwanted`. */
function sweepOver(
  statuses: Record<string, string>,
  answer: (asking: Account, accounts: AccountTable) => string | undefined | Promise<undefined>,
): Swept {
  const accounts = new AccountTable()
  const clock = new TestClock()
  const startMs = clock.nowMs()
  for (const [name, status] of Object.entries(statuses)) {
    const sourceId = name.startsWith('unwanted') ? unwantedSource : name.startsWith('of2') ? 2 : 1
    accounts.assign(accounts.take(did(name)), sourceId, status)
  }
  const asked: Swept['asked'] = []
  const applied: string[] = []
  const incomplete: Did[] = []
  const sweep = new AccountSweep({
    accounts,
    clock,
    placeOf: ({ sourceId }) =>
      sourceId === unwantedSource ? undefined : { name: String(sourceId), perSecond: 1, isShared: false },
    hostOf: () => undefined,
    askHost: async (account) => {
      asked.push({ did: account.did, second: Math.floor((clock.nowMs() - startMs) / 1000) })
      const status = await answer(account, accounts)
      return status === undefined ? undefined : { status, sourceId: 1 }
    },
    onStatus: (account, { status, sourceId }) => {
      applied.push(`${account.did} ${status}`)
      accounts.assign(account, sourceId, status)
    },
    onIncomplete: (account) => {
      incomplete.push(account.did)
      // As by healing, when the commit of the account is of no use now.
      account.askedAtMs = clock.nowMs()
    },
  })
  clock.every(250, () => sweep.step())
  return { accounts, clock, asked, applied, incomplete, sweep }
}

test('the hosts of inactive accounts are asked, and what they say twice is applied unless an event said more', async () => {
  const { asked, applied, clock } = sweepOver(
    { active: 'active', away: 'deactivated', silent: 'suspended', gone: 'deleted', meanwhile: 'deactivated' },
    (asking, accounts) => {
      if (asking.did === did('silent')) return undefined
      if (asking.did === did('meanwhile')) accounts.assign(asking, 1, 'takendown')
      return 'active'
    },
  )
  await clock.pass(120_000)
  const seen = asked.map((each) => each.did)
  assert.deepEqual(seen.toSorted(), ['away', 'away', 'meanwhile', 'silent'].map(did).toSorted())
  assert.deepEqual(applied, [`${did('away')} active`])
})

test('an account that is just coming back is left to its own events', async () => {
  const early = sweepOver({ back: 'deactivated' }, () => 'active')
  await early.clock.pass(50_000)
  assert.deepEqual([early.asked.length, early.applied], [1, []])
  let answers = 0
  const again = sweepOver({ away: 'deactivated' }, () => (++answers === 1 ? 'active' : 'deactivated'))
  await again.clock.pass(120_000)
  assert.deepEqual([again.asked.length, again.applied], [2, []])
  await again.clock.pass(dayMs)
  assert.equal(again.asked.length, 3)
})

test('a question of the sweep keeps no event of the account from asking, but by an answer that is no news', async () => {
  const askedAtMs: number[] = []
  const statuses = { silent: 'deactivated', same: 'deactivated', back: 'deactivated' }
  const { accounts, clock } = sweepOver(statuses, (asking) => {
    askedAtMs.push(asking.askedAtMs)
    return { [did('same')]: 'deactivated', [did('back')]: 'active' }[asking.did]
  })
  await clock.pass(10_000)
  assert.deepEqual(askedAtMs, [0, 0, 0])
  assert.equal(accounts.take(did('back')).askedAtMs, 0)
  for (const name of ['silent', 'same']) assert.ok(accounts.take(did(name)).askedAtMs > 0)
})

test('the host of a source that is not wanted is not asked, and an answer that comes late does not count', async () => {
  const unwanted = sweepOver({ unwanted: 'deactivated', away: 'deactivated' }, () => 'active')
  await unwanted.clock.pass(120_000)
  assert.deepEqual(unwanted.applied, [`${did('away')} active`])
  assert.ok(unwanted.asked.every((each) => each.did === did('away')))
  const late = sweepOver({ away: 'deactivated' }, (asking) => {
    // As if its source were banned while the answer is under way.
    asking.sourceId = unwantedSource
    return 'active'
  })
  await late.clock.pass(120_000)
  assert.deepEqual([late.asked.length, late.applied], [1, []])
  const later = sweepOver({ away: 'deactivated' }, (asking) => {
    if (later.asked.length === 2) asking.sourceId = unwantedSource
    return 'active'
  })
  await later.clock.pass(120_000)
  assert.deepEqual([later.asked.length, later.applied], [2, []])
})

test('hosts are asked side by side, each once a second, and one that hangs holds up no other', async () => {
  const statuses: Record<string, string> = {}
  for (let n = 0; n < 20; n++) statuses[`hanging${n}`] = 'deactivated'
  for (let n = 0; n < 20; n++) statuses[`of2${'x'.repeat(n)}`] = 'deactivated'
  const { asked, clock, accounts } = sweepOver(statuses, (account) =>
    account.sourceId === 1 ? new Promise<undefined>(() => {}) : undefined,
  )
  await clock.pass(21_000)
  const seconds = asked.filter((each) => accounts.get(each.did)?.sourceId === 2).map(({ second }) => second)
  assert.equal(seconds.length, 20)
  assert.equal(new Set(seconds).size, 20)
  assert.equal(asked.length, 21)
})

test('accounts that miss events are handed on at once after a start, and then once an hour', async () => {
  const { accounts, clock, incomplete, sweep } = sweepOver(
    { whole: 'active', marked: 'active' },
    () => undefined,
  )
  const marked = accounts.take(did('marked'))
  marked.isIncomplete = true
  await clock.pass(10_000)
  const atFirst = incomplete.length
  assert.ok(atFirst >= 1)
  marked.askedAtMs = clock.nowMs()
  await clock.pass(1_800_000)
  assert.equal(incomplete.length, atFirst)
  await clock.pass(1_900_000)
  assert.ok(incomplete.length > atFirst)
  marked.askedAtMs = clock.nowMs()
  const before = incomplete.length
  sweep.lookAgain()
  await clock.pass(250)
  assert.equal(incomplete.length, before + 1)
  assert.ok(incomplete.every((each) => each === did('marked')))
})

test('inactive accounts that miss events are handed on after a start, because they may have moved', async () => {
  const { accounts, clock, incomplete } = sweepOver({ left: 'deactivated' }, () => undefined)
  accounts.take(did('left')).isIncomplete = true
  await clock.pass(10_000)
  const atFirst = incomplete.length
  assert.ok(atFirst >= 1)
  await clock.pass(7_200_000)
  assert.equal(incomplete.length, atFirst)
})

test('each account without a slot that misses events is asked for, however many of its host do', async () => {
  const { accounts, clock, applied } = sweepOver(
    { one: 'active', two: 'active', three: 'active' },
    () => 'deactivated',
  )
  for (const name of ['one', 'two', 'three']) {
    const account = accounts.take(did(name))
    account.isIncomplete = true
    account.askedAtMs = clock.nowMs()
    accounts.restore(account, clock.nowMs())
  }
  await clock.pass(4_200_000)
  assert.deepEqual(
    applied.toSorted(),
    ['one', 'three', 'two'].map((name) => `${did(name)} deactivated`).toSorted(),
  )
})

test('a clock that was ahead does not put the hosts of inactive accounts off', async () => {
  const { asked, applied, clock, sweep } = sweepOver(
    { away: 'deactivated', silent: 'suspended' },
    ({ did: of }) => (of === did('away') ? 'active' : undefined),
  )
  await clock.pass(5000)
  const { length } = asked
  clock.setBack(dayMs)
  sweep.setBack(dayMs)
  await clock.pass(120_000)
  assert.deepEqual([length, applied], [2, [`${did('away')} active`]])
  assert.ok(asked.slice(length).some((each) => each.did === did('silent')))
})

test('of many accounts that miss events a few are handed on at a time, and none is left out', async () => {
  const statuses: Record<string, string> = {}
  for (let n = 0; n < 1000; n++) statuses[`marked${n}`] = 'active'
  const { accounts, clock, incomplete } = sweepOver(statuses, () => undefined)
  for (const name of Object.keys(statuses)) accounts.take(did(name)).isIncomplete = true
  await clock.pass(250)
  assert.equal(incomplete.length, 200)
  await clock.pass(1250)
  assert.deepEqual([incomplete.length, new Set(incomplete).size], [1000, 1000])
})

for (const isKnown of [true, false])
  test(`a host behind a relay that hangs does not hold up other hosts, ${isKnown ? 'known' : 'not known'} before it is asked`, async () => {
    const accounts = new AccountTable()
    const clock = new TestClock()
    const add = (name: string, count: number): Set<Did> => {
      const dids = Array.from({ length: count }, (_, n) => did(`${name}${n}`))
      for (const each of dids) accounts.assign(accounts.take(each), 1, 'deactivated')
      return new Set(dids)
    }
    const hanging = add('hanging', 50)
    const others = add('of', 20)
    const hostOf = (of: Did): string => (hanging.has(of) ? 'evil.test' : 'good.test')
    const located = new Set<Did>()
    const asked: Did[] = []
    const sweep = new AccountSweep({
      accounts,
      clock,
      placeOf: () => ({ name: 'relay.test', perSecond: 8, isShared: true }),
      hostOf: ({ did: of }) => (isKnown || located.has(of) ? hostOf(of) : undefined),
      askHost: async ({ did: of }, mayAsk) => {
        await Promise.resolve()
        located.add(of)
        if (!mayAsk(hostOf(of))) return 'unasked'
        asked.push(of)
        return hanging.has(of) ? await new Promise<undefined>(() => {}) : undefined
      },
      onStatus: () => assert.fail('no host gives a status'),
      onIncomplete: () => assert.fail('no account misses events'),
    })
    clock.every(250, () => sweep.step())
    await clock.pass(60_000)
    assert.equal(asked.filter((each) => hanging.has(each)).length, 1)
    assert.deepEqual(asked.filter((each) => others.has(each)).toSorted(), [...others].toSorted())
  })

test('of many accounts whose host has no turn few documents are looked up at a time', async () => {
  const accounts = new AccountTable()
  const clock = new TestClock()
  for (let n = 0; n < 1000; n++) accounts.assign(accounts.take(did(`away${n}`)), 1, 'deactivated')
  let lookedUp = 0
  const sweep = new AccountSweep({
    accounts,
    clock,
    placeOf: () => ({ name: 'relay.test', perSecond: 8, isShared: true }),
    hostOf: () => {
      lookedUp++
      return 'evil.test'
    },
    askHost: async () => await new Promise<undefined>(() => {}),
    onStatus: () => assert.fail('no host gives a status'),
    onIncomplete: () => assert.fail('no account misses events'),
  })
  for (let step = 1; step <= 5; step++) {
    sweep.step()
    assert.equal(lookedUp, 200 * step)
  }
})

test('hosts behind a relay that hang when they are to confirm do not slow the sweep of other accounts', async () => {
  const accounts = new AccountTable()
  const clock = new TestClock()
  const hangs = (account: Account): boolean => account.did.includes('hang')
  const add = (name: string, sourceId: number): Account => {
    const account = accounts.take(did(name))
    accounts.assign(account, sourceId, 'deactivated')
    return account
  }
  for (let n = 0; n < 420; n++) add(`hang${n}`, 1)
  for (let n = 0; n < 4000; n++) add(`known${n}`, 2).askedAtMs = clock.nowMs() + 60_000
  const last = add('last', 2)
  last.askedAtMs = clock.nowMs() + 60_000
  const asked: Did[] = []
  let isHanging = false
  const sweep = new AccountSweep({
    accounts,
    clock,
    placeOf: ({ sourceId }) =>
      sourceId === 1
        ? { name: 'relay', perSecond: 8, isShared: true }
        : { name: 'pds', perSecond: 1, isShared: false },
    // Seven hosts with 60 accounts each.
    hostOf: (account) => (hangs(account) ? `host${account.row % 7}` : undefined),
    askHost: async (account) => {
      asked.push(account.did)
      if (isHanging && hangs(account)) await new Promise(() => {})
      return { status: hangs(account) ? 'active' : 'deactivated', sourceId: account.sourceId }
    },
    onStatus: () => {},
    onIncomplete: () => {},
  })
  clock.every(250, () => sweep.step())
  await clock.pass(60_000)
  isHanging = true
  await clock.pass(65_000)
  assert.ok(asked.filter((each) => each.includes('hang')).length > 400)
  asked.length = 0
  last.askedAtMs = 1
  await clock.pass(5000)
  assert.deepEqual(asked, [last.did])
})

test('the news of one host behind a relay take few of the places for what must be confirmed', async () => {
  const accounts = new AccountTable()
  const clock = new TestClock()
  for (let n = 0; n < 1000; n++) accounts.assign(accounts.take(did(`away${n}`)), 1, 'deactivated')
  const waiting = new Set<Did>()
  let most = 0
  const sweep = new AccountSweep({
    accounts,
    clock,
    placeOf: () => ({ name: 'relay.test', perSecond: 8, isShared: true }),
    hostOf: () => 'evil.test',
    askHost: async ({ did: of, sourceId }) => {
      // It calls each account active at first, and keeps us waiting later.
      if (waiting.has(of)) await clock.sleep(10_000)
      if (!waiting.delete(of)) waiting.add(of)
      most = Math.max(most, waiting.size)
      return { status: waiting.has(of) ? 'active' : 'deactivated', sourceId }
    },
    onStatus: () => assert.fail('no status is said twice'),
    onIncomplete: () => assert.fail('no account misses events'),
  })
  clock.every(250, () => sweep.step())
  await clock.pass(600_000)
  assert.equal(most, 60)
})

test('many hosts that always have something new to say leave room for the news of another', async () => {
  const accounts = new AccountTable()
  const clock = new TestClock()
  const hosts = 40
  for (let n = 0; n < hosts * 100; n++)
    accounts.assign(accounts.take(did(`away${n}`)), 1 + (n % hosts), 'deactivated')
  const honest = accounts.take(did('honest'))
  accounts.assign(honest, hosts + 1, 'deactivated')
  // It is asked when the others have all places.
  honest.askedAtMs = clock.nowMs() - dayMs + 70_000
  const waiting = new Set<Did>()
  let heardAtMs = Infinity
  const sweep = new AccountSweep({
    accounts,
    clock,
    placeOf: ({ sourceId }) => ({ name: `pds${sourceId}`, perSecond: 1, isShared: false }),
    hostOf: () => undefined,
    askHost: async ({ did: of, sourceId }) => {
      // The others say something else each time, which is news again.
      if (of !== honest.did && !waiting.delete(of)) waiting.add(of)
      return { status: of === honest.did || waiting.has(of) ? 'active' : 'suspended', sourceId }
    },
    onStatus: (account) => {
      assert.equal(account.did, honest.did)
      heardAtMs = Math.min(heardAtMs, clock.nowMs())
    },
    onIncomplete: () => assert.fail('no account misses events'),
  })
  const startMs = clock.nowMs()
  clock.every(250, () => sweep.step())
  await clock.pass(300_000)
  assert.ok(heardAtMs - startMs < 200_000, `after ${heardAtMs - startMs} ms`)
})
