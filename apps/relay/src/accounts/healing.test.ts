import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { commit, gives, hangs, rev, Ward, type Behaviour } from '../../tests/healing-ward.ts'
import { newAccount } from '../../tests/sample-account.ts'
import { NoAnswerError } from '../inquiry/host-inquiry.ts'

test('many accounts of silent hosts do not keep the account of another host waiting', async () => {
  const ward = new Ward({ silent: hangs, 'silent too': hangs, honest: gives })
  ward.mark(1000, 'silent')
  ward.mark(1000, 'silent too')
  await ward.clock.pass(1000)
  const [did = '' as Did] = ward.mark(1, 'honest')
  await ward.clock.pass(10_000)
  assert.ok((ward.whole.get(did) ?? Infinity) <= 4, `whole after ${ward.whole.get(did)} s`)
})

test('an account without a mark is asked for until its host gives a commit, and waits until that was put through', async () => {
  let answers = 0
  const ward = new Ward({ host: async () => Promise.resolve(++answers < 3 ? undefined : commit) })
  const [did = '' as Did] = ward.mark(1, 'host')
  const account = ward.accounts.get(did) ?? assert.fail()
  account.isIncomplete = false
  account.underWay = 1
  await ward.clock.pass(60_000)
  assert.deepEqual([answers, ward.healing.has(did)], [3, true])
  account.underWay = 0
  await ward.clock.pass(2000)
  assert.deepEqual([answers, ward.healing.has(did)], [3, false])
})

test('the status that a host gives is not believed when an event of the account has come since it was asked', async () => {
  let isOvertaken = true
  const ward: Ward = new Ward({
    host: async (_, { did }) => {
      if (isOvertaken) ward.questions.overtake(did)
      return Promise.resolve(undefined)
    },
  })
  const [did = '' as Did] = ward.mark(1, 'host')
  const account = ward.accounts.get(did) ?? assert.fail()
  account.upstreamStatus = 'deactivated'
  await ward.clock.pass(1000)
  assert.ok(ward.asked.length > 0)
  assert.deepEqual(ward.news, [])
  isOvertaken = false
  await ward.clock.pass(60_000)
  assert.equal(ward.news[0], 'active')
})

test('a host that gave no use for long is asked soon when it sends something more that is left out', async () => {
  let isUseful = false
  const ward = new Ward({ host: () => Promise.resolve(isUseful ? commit : undefined) })
  const [did = '' as Did] = ward.mark(1, 'host')
  await ward.clock.pass(1_100_000)
  isUseful = true
  const { length } = ward.asked
  ward.missAgain(did, 'elsewhere')
  await ward.clock.pass(60_000)
  assert.equal(ward.asked.length, length, 'the word of another host changes nothing')
  ward.missAgain(did, 'host')
  await ward.clock.pass(40_000)
  assert.deepEqual([ward.asked.length > length, ward.whole.has(did)], [true, true])
})

test('accounts that name a host by an address that is never dialled do not keep its own accounts waiting', async () => {
  const refused: Behaviour = () =>
    Promise.reject(new NoAnswerError('TLS is required', { isHostSilent: true }))
  const ward = new Ward({ honest: gives, 'http://honest': refused })
  ward.mark(1000, 'http://honest', 'hostile')
  await ward.clock.pass(60_000)
  const dids = ward.mark(20, 'honest')
  await ward.clock.pass(10_000)
  assert.equal(dids.filter((did) => ward.whole.has(did)).length, dids.length)
})

test("accounts that other sources name do not keep a host's own accounts waiting", async () => {
  const slow: Behaviour = async (clock) => {
    await clock.sleep(250)
    return commit
  }
  const ward = new Ward({ honest: slow })
  for (const cause of ['h1', 'h2', 'h3', 'h4']) ward.mark(2000, 'honest', cause)
  const dids = ward.mark(100, 'honest')
  await ward.clock.pass(60_000)
  assert.equal(dids.filter((did) => ward.whole.has(did)).length, dids.length)
})

test('an account that another source brought in first waits among the accounts of its own host', async () => {
  const ward = new Ward({ away: hangs, honest: gives })
  ward.mark(1900, 'away', 'hostile')
  const [did = '' as Did] = ward.mark(1, 'honest', 'hostile')
  await ward.clock.pass(0)
  ward.missAgain(did, 'honest')
  await ward.clock.pass(10_000)
  assert.ok(ward.whole.has(did))
})

test('an account that moves while it waits is made whole by its new host', async () => {
  const ward = new Ward({ old: hangs, new: gives })
  const did = ward.mark(10, 'old').at(-1) as Did // the last of ten
  await ward.clock.pass(1000)
  ward.hostOf.set(did, 'new')
  ward.missAgain(did, 'new')
  await ward.clock.pass(5000)
  assert.ok(ward.whole.has(did))
})

test('the answer of a host that an account has left meanwhile is not the last word', async () => {
  const ward = new Ward({
    old: async (clock) => {
      await clock.sleep(2000)
      return undefined
    },
    new: gives,
  })
  const [did = '' as Did] = ward.mark(1, 'old')
  await ward.clock.pass(1000)
  ward.hostOf.set(did, 'new')
  ward.missAgain(did, 'new')
  await ward.clock.pass(15_000)
  assert.ok(ward.whole.has(did))
})

test('a cause fills only its own share of those that are waited for', () => {
  const ward = new Ward({})
  ward.mark(3000, 'hostile')
  assert.equal(ward.healing.size, 2000)
  ward.mark(1, 'honest')
  assert.equal(ward.healing.size, 2001)
})

test('a host behind a relay fills only its own share of those that are waited for, whatever port it names', async () => {
  const ward = new Ward({ evil: hangs, good: gives })
  ward.mark(1000, 'evil', 'relay')
  ward.mark(1000, 'evil:8443', 'relay')
  assert.equal(ward.healing.size, 500)
  const [did = '' as Did] = ward.mark(1, 'good', 'relay')
  await ward.clock.pass(60_000)
  assert.ok(ward.whole.has(did))
})

test('accounts of one host whose documents are read only now fill only the share of this host', async () => {
  const ward = new Ward({ evil: hangs, good: gives })
  for (let n = 0; n < 10; n++) {
    ward.mark(1000, 'evil', 'relay', false)
    await ward.clock.pass(60_000)
  }
  assert.ok(ward.healing.size <= 500)
  const [did = '' as Did] = ward.mark(1, 'good', 'relay', false)
  await ward.clock.pass(60_000)
  assert.ok(ward.whole.has(did))
})

for (const cause of ['relay', 'good'])
  test(`documents that silent hosts have of accounts of ${cause} do not keep those of others waiting`, async () => {
    const ward = new Ward({ good: gives })
    ward.silentDirectories.add('did:web:')
    for (let n = 0; n < 5000; n++) ward.markOne(`did:web:${n}.evil.example` as Did, 'evil', cause) // only a name here
    assert.equal(ward.healing.size, 100)
    const [did = '' as Did] = ward.mark(1, 'good', cause, false)
    await ward.clock.pass(5000)
    assert.ok(ward.whole.has(did))
  })

test('accounts whose documents come no more, after they were known, fill a small share', async () => {
  const ward = new Ward({ good: gives })
  ward.unreadable.add('did:web:')
  for (let n = 0; n < 2000; n++) ward.markOne(`did:web:${n}.evil.example` as Did, 'good', 'good', true) // only a name here
  await ward.clock.pass(600_000)
  assert.equal(ward.healing.size, 100)
  assert.equal(ward.mark(2000, 'good').length + 100, ward.healing.size)
})

test('an account that has no document is given up within minutes', async () => {
  const ward = new Ward({})
  ward.noDocuments.add('did:plc:')
  const dids = ward.mark(1, 'honest')
  await ward.clock.pass(600_000)
  assert.deepEqual(ward.givenUp, dids)
})

test('accounts of a host whose documents name one that is not read fill a small share', async () => {
  const ward = new Ward({ honest: gives })
  ward.unread.add('nowhere')
  ward.mark(1000, 'nowhere', 'honest')
  assert.equal(ward.healing.size, 100)
  ward.mark(1000, 'honest')
  assert.equal(ward.healing.size, 1100)
})

test('a host that was silent is asked again within a minute of its return, and one that stays silent is given up', async () => {
  let isBack = false
  const ward = new Ward({ away: (clock, account) => (isBack ? gives : hangs)(clock, account), gone: hangs })
  const dids = ward.mark(20, 'away')
  ward.mark(20, 'gone')
  await ward.clock.pass(1_200_000)
  isBack = true
  const beforeMs = 1200
  await ward.clock.pass(90_000)
  for (const did of dids) assert.ok((ward.whole.get(did) ?? Infinity) < beforeMs + 75)
  const asked = ward.asked.length
  await ward.clock.pass(600_000)
  assert.ok(ward.asked.length - asked <= 10, 'a silent host is asked once a minute')
  await ward.clock.pass(7_200_000)
  assert.equal(ward.givenUp.length, 20)
  assert.equal(ward.healing.size, 0)
})

test('an account that was made whole is not asked for again, and one that is not, less and less often', async () => {
  const ward = new Ward({ honest: gives })
  const [did = '' as Did] = ward.mark(1, 'honest')
  await ward.clock.pass(3_600_000)
  assert.equal(ward.asked.length, 1)
  assert.equal(ward.healing.size, 0)

  ward.isLogging = false
  ward.missAgain(did, 'honest')
  await ward.clock.pass(600_000)
  const asked = ward.asked.length
  assert.ok(asked > 5 && asked < 13, `asked ${asked} times`)
  assert.ok(ward.accounts.get(did)?.isIncomplete)
  await ward.clock.pass(86_400_000)
  assert.deepEqual(ward.givenUp, [did])
})

test('an account that misses something again and again is made whole each time without more and more delay', async () => {
  const ward = new Ward({ honest: gives })
  const [did = '' as Did] = ward.mark(1, 'honest')
  await ward.clock.pass(3000)
  for (let n = 0; n < 20; n++) {
    ward.missAgain(did, 'honest')
    await ward.clock.pass(3000)
    assert.equal(ward.accounts.get(did)?.isIncomplete, false, `after ${n} times`)
  }
})

test('what is left out while a host is asked is asked for again, because its answer may not have it', async () => {
  const slow: Behaviour = async (clock) => {
    await clock.sleep(2000)
    return commit
  }
  const ward = new Ward({ honest: slow })
  const [did = '' as Did] = ward.mark(1, 'honest')
  await ward.clock.pass(1000)
  ward.missAgain(did, 'honest')
  await ward.clock.pass(60_000)
  assert.equal(ward.asked.length, 2)
  assert.equal(ward.healing.size, 0)
})

test('an account stays marked when more was left out while an answer was held, until a later answer is of use', async () => {
  let answers = 0
  const ward = new Ward({
    honest: (...asked) => (answers++ === 1 ? Promise.resolve(undefined) : gives(...asked)),
  })
  const [did = '' as Did] = ward.mark(1, 'honest')
  await ward.clock.pass(1000)
  ward.missAgain(did, 'honest')
  await ward.clock.pass(1000)
  const account = ward.accounts.get(did)
  assert.deepEqual([account?.rev, account?.isIncomplete, ward.asked.length], [rev, true, 1])
  await ward.clock.pass(10_000)
  assert.deepEqual([account?.isIncomplete, ward.asked.length], [false, 3])
})

test('an account stays marked by a `#sync` that is older than what was left out, though its host was asked again since', async () => {
  const ward = new Ward({ honest: gives })
  const [did = '' as Did] = ward.mark(1, 'honest')
  ward.isLogging = false
  await ward.clock.pass(1000)
  ward.newest = 5
  ward.missAgain(did, 'honest')
  await ward.clock.pass(5000)
  assert.ok(ward.asked.length > 1)
  const misses = (place: number, isOwn: boolean): boolean => ward.healing.missesMore(did, { place, isOwn })
  assert.deepEqual([misses(4, true), misses(5, true)], [true, false])
  assert.deepEqual([misses(4, false), misses(5, false)], [true, false])
})

test('the host of an account that is back is asked once for its commit', async () => {
  const ward = new Ward({ honest: gives })
  const [did = '' as Did] = ward.mark(1, 'honest')
  const account = ward.accounts.get(did)
  assert.ok(account)
  account.upstreamStatus = 'deactivated'
  await ward.clock.pass(3000)
  assert.deepEqual([account.isIncomplete, ward.asked.length], [false, 1])
})

test('an account stays marked for a few seconds when more was left out while an answer was held that came late', async () => {
  let isBack = false
  const ward = new Ward({ honest: (...asked) => (isBack ? gives(...asked) : Promise.resolve(undefined)) })
  const [did = '' as Did] = ward.mark(1, 'honest')
  await ward.clock.pass(600_000)
  isBack = true
  const account = ward.accounts.get(did)
  const asked = ward.asked.length
  while (ward.asked.length === asked) await ward.clock.pass(500)
  ward.missAgain(did, 'honest')
  await ward.clock.pass(5000)
  assert.deepEqual([account?.isIncomplete, ward.asked.length], [false, asked + 2])
})

test('an account that misses something right after it was made whole waits no longer each time', async () => {
  const ward = new Ward({ honest: gives })
  const [did = '' as Did] = ward.mark(1, 'honest')
  for (let n = 0; n < 15; n++) {
    let waitedMs = 0
    for (; ward.accounts.get(did)?.isIncomplete; waitedMs += 250) await ward.clock.pass(250)
    assert.ok(waitedMs <= 10_000, `${waitedMs} ms the ${n}th time`)
    ward.missAgain(did, 'honest')
  }
})

test('an account that bears no mark is asked for again when its host gave no answer, until it gives one', async () => {
  let asked = 0
  const failsTwice: Behaviour = () => {
    asked++
    return asked > 2 ? Promise.resolve(commit) : Promise.reject(new NoAnswerError('not now'))
  }
  const ward = new Ward({ host: failsTwice })
  const account = newAccount('did:plc:unmarked' as Did) // a name is enough here
  ward.accounts.set(account.did, account)
  ward.hostOf.set(account.did, 'host')
  ward.healing.add(account, { cause: 'host', isOwnHost: true, notBeforeMs: 0 })
  await ward.clock.pass(60_000)
  assert.equal(asked, 3)
  assert.equal(account.rev, rev)
  assert.equal(ward.healing.size, 0)
})

test('the share of a cause is free again when its accounts were made whole', async () => {
  const ward = new Ward({ honest: gives })
  for (let n = 0; n < 3; n++) {
    ward.mark(1500, 'honest')
    assert.equal(ward.healing.size, 1500)
    await ward.clock.pass(600_000)
    assert.equal(ward.healing.size, 0)
  }
})

test('an answer that is ahead of the events of its account waits for them, and no other answer does', async () => {
  const ward = new Ward({ honest: gives })
  const [ahead = '' as Did, level = '' as Did] = ward.mark(2, 'honest')
  const account = ward.accounts.get(level)
  assert.ok(account)
  account.rev = rev
  await ward.clock.pass(1000)
  assert.deepEqual([ward.whole.has(ahead), ward.whole.has(level)], [false, true])
  await ward.clock.pass(2000)
  assert.ok(ward.whole.has(ahead))
})

test('one account of a host that was silent for long is made whole within a minute of its return', async () => {
  let isBack = false
  const ward = new Ward({ away: (clock, account) => (isBack ? gives : hangs)(clock, account) })
  const [did = '' as Did] = ward.mark(1, 'away')
  await ward.clock.pass(2_400_000)
  isBack = true
  await ward.clock.pass(75_000)
  assert.ok(ward.whole.has(did))
})

test('a clock that was ahead does not put an account off', async () => {
  let isUseful = false
  const ward = new Ward({ host: () => Promise.resolve(isUseful ? commit : undefined) })
  const [did = '' as Did] = ward.mark(1, 'host')
  await ward.clock.pass(60_000)
  isUseful = true
  ward.clock.setBack(10 * 86_400_000)
  ward.healing.setBack(10 * 86_400_000)
  await ward.clock.pass(120_000)
  assert.ok(ward.whole.has(did))
})
