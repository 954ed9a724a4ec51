import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createLogger } from '@tributary/telemetry'
import { eventually } from '@tributary/testkit'
import type { Clock } from '@tributary/lanes'
import { RepoStates, unknownRepo } from '../ingest/repo-states.ts'
import { WatchedCollections } from '../policy/watched-collections.ts'
import { openStateDatabase } from '../state-database.ts'
import { Backfill } from './backfill.ts'
import { BackfillStore, countedMax } from './backfill-store.ts'
import { Coverage } from './coverage.ts'
import type { FillOutcome, FillWish } from './repo-fill.ts'

const collection = 'org.impact.collection'
const host = 'pds.example.com'
const dayMs = 86_400_000
const did = `did:plc:${'a'.repeat(24)}`

/** A time that a test sets. What waits is called at once, whatever it waits for. */
class SetClock implements Clock {
  ms = Date.UTC(2026, 0, 1)
  waits = 0
  nowMs(): number {
    return this.ms
  }
  after(_: number, call: () => void): Disposable {
    this.waits++
    const timer = setTimeout(call, 1)
    return { [Symbol.dispose]: () => clearTimeout(timer) }
  }
}

/** A backfill of one PDS with one repository, which `outcomes` says the fate of. */
function backfillOf(
  t: TestContext,
  {
    hosts = [host],
    listed = [did],
    listedBy = () => listed,
    hostOf = () => host,
  }: {
    hosts?: string[]
    listed?: string[]
    listedBy?: (origin: string) => string[]
    hostOf?: (did: string) => string
  } = {},
) {
  const directory = mkdtempSync(join(tmpdir(), 'backfill-'))
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  const clock = new SetClock()
  const states = new RepoStates(database)
  const watched = new WatchedCollections(database, [collection], clock.ms)
  const store = new BackfillStore(database)
  const outcomes: PromiseWithResolvers<FillOutcome>[] = []
  const wishes: FillWish[] = []
  const asked: string[] = []
  const fill = {
    makeWhole: async (wish: FillWish) => {
      const outcome = Promise.withResolvers<FillOutcome>()
      outcomes.push(outcome)
      wishes.push(wish)
      const became = await outcome.promise
      if (became.is === 'whole') wish.onWhole()
      return became
    },
    forgetRereads: () => {},
  }
  const requests = {
    quietMs: () => 0,
    ask: async (origin: string, method: string) => {
      asked.push(method)
      const answer = method.startsWith('listHosts')
        ? { hosts: hosts.map((hostname) => ({ hostname })) }
        : { repos: listedBy(origin).map((each) => ({ did: each, rev: '3l22222222222', active: true })) }
      return { status: 200, body: Buffer.from(JSON.stringify(answer)) }
    },
  }
  const options = {
    database,
    store,
    states,
    watched,
    fill,
    requests,
    hostOf,
    relayUrl: 'https://relay.example.com',
    allowedPrivateHosts: [],
    settleMs: 0,
    headSeq: () => 7,
    logger: createLogger('test', { level: 'silent' }),
    onRepo: () => {},
    onFailure: (error: Error) => {
      throw error
    },
    clock,
    random: () => 0.5,
  }
  const backfill = new Backfill(
    options as unknown as ConstructorParameters<typeof Backfill>[0], // as far as it is used
    new AbortController(),
  )
  const coverage = new Coverage({ store, backfill, watched, states, headSeq: options.headSeq })
  backfill.start()
  t.after(async () => {
    for (const { resolve } of outcomes) resolve({ is: 'later', detail: 'the test is over' })
    await backfill.close()
    database.close()
    rmSync(directory, { recursive: true })
  })
  const position = { relayUrl: '', epoch: 0, epochBeganMs: 0, cursor: 0 }
  return {
    database,
    clock,
    states,
    store,
    backfill,
    outcomes,
    wishes,
    asked,
    requests,
    /** Saves what became of a repository, once that is known. */
    save: async (): Promise<void> => {
      await eventually(() => states.dirtyCount > 0)
      await states.save(position, { appliedSeq: 0, blockSeq: 0 }, Promise.resolve())
    },
    covered: async () => (await coverage.page('', 10)).hosts[0],
  }
}

test('a repository that is read while its job is cancelled is not left as one that is still to be read', async (t) => {
  const { store, outcomes, save, covered } = backfillOf(t)
  await eventually(() => outcomes.length === 1)
  store.setState(1, 'cancelled', 0)
  outcomes[0]?.resolve({ is: 'later', detail: 'away' })
  await save()
  assert.equal((await covered())?.pending, 0)
})

test('a repository that stays older than what is known of it fails at last, and ends its job', async (t) => {
  const { clock, store, outcomes, save } = backfillOf(t)
  const hasFailed: boolean[] = []
  for (let attempt = 1; attempt <= 12; attempt++) {
    await eventually(() => outcomes.length === attempt)
    outcomes[attempt - 1]?.resolve({ is: 'older', detail: 'restored' })
    await save()
    hasFailed.push(store.repos(1, '', 1)[0]?.state === 'failed')
    clock.ms += 600_000
  }
  assert.equal(hasFailed.indexOf(true), 11)
  await eventually(() => store.job(1)?.state === 'done')
})

test('a repository that its host lists with a newer revision while it is read is read once more', async (t) => {
  for (const outcome of [{ is: 'whole' }, { is: 'live-behind' }] as const) {
    const { backfill, states, store, outcomes, requests, save } = backfillOf(t)
    await eventually(() => outcomes.length === 1)
    const rev = '3l33333333333'
    const body = Buffer.from(JSON.stringify({ repos: [{ did, rev, active: true }] }))
    t.mock.method(requests, 'ask', async () => ({ status: 200, body }))
    backfill.begin('window-missed')
    await eventually(() => store.repos(1, '', 1)[0]?.rev === rev)
    states.set(did, { ...unknownRepo, rev: '3l22222222222', completeRevision: 1 })
    await save()
    outcomes[0]?.resolve(outcome)
    await save()
    assert.equal(store.repos(1, '', 1)[0]?.rev, rev)
    await eventually(() => outcomes.length === 2)
  }
})

test('an account that is active again while a job finds it unavailable is read, however often it was tried in vain', async (t) => {
  for (const when of ['before', 'after']) {
    const { clock, backfill, states, store, outcomes, save } = backfillOf(t)
    for (let attempt = 0; attempt < 6; attempt++) {
      await eventually(() => outcomes.length > attempt)
      outcomes[attempt]?.resolve({ is: 'later', detail: 'away' })
      await save()
      clock.ms += 600_000
    }
    await eventually(() => outcomes.length === 7)
    const comeBack = (): void => {
      states.set(did, { ...unknownRepo, accountSeen: 'active' })
      backfill.noteActive(did)
    }
    if (when === 'before') comeBack()
    outcomes[6]?.resolve({ is: 'unavailable', detail: 'not active' })
    await nextTurn()
    if (when === 'after') comeBack()
    await save()
    assert.deepEqual(store.repos(1, '', 1), [])
    await eventually(() => outcomes.length === 8)
  }
})

test('an account of which the archive has everything is not read again because another PDS has listed it', async (t) => {
  const { backfill, states, store, outcomes, save } = backfillOf(t)
  await eventually(() => outcomes.length === 1)
  outcomes[0]?.resolve({ is: 'unavailable', detail: 'it lives elsewhere' })
  await save()
  assert.equal(store.repos(1, '', 1)[0]?.state, 'unavailable')
  states.set(did, { ...unknownRepo, rev: '3l22222222222', completeRevision: 1 })
  backfill.noteActive(did)
  await save()
  assert.deepEqual([store.repos(1, '', 1), states.get(did)?.needsRefetch], [[], false])
})

test('an account that is active again is read when its own host had listed a newer revision than the archive has', async (t) => {
  for (const [own, isRead] of [
    [host, true],
    ['elsewhere.example.com', false],
  ] as const) {
    const { backfill, states, store, outcomes, save } = backfillOf(t, { hostOf: () => own })
    await eventually(() => outcomes.length === 1)
    outcomes[0]?.resolve({ is: 'unavailable', detail: 'not active' })
    await save()
    assert.equal(store.repos(1, '', 1)[0]?.rev, '3l22222222222')
    states.set(did, { ...unknownRepo, rev: '3l11111111111', completeRevision: 1 })
    backfill.noteActive(did)
    await save()
    assert.deepEqual([store.repos(1, '', 1), states.get(did)?.needsRefetch], [[], isRead])
  }
})

test('a collection is not complete by an earlier job when a later one for everything was cancelled', async (t) => {
  const { store, backfill, covered } = backfillOf(t)
  await eventually(() => store.jobs().length === 1)
  store.setState(1, 'cancelled', 0)
  const [id = 0] = backfill.begin('collection-added', { host, collection })
  store.setState(id, 'done', 0, 5)
  assert.equal((await covered())?.collections[0]?.status, 'complete')
  backfill.windowMissed()
  store.setState(id + 1, 'cancelled', 0)
  assert.equal((await covered())?.collections[0]?.status, 'unknown')
})

test('what a PDS lists in vain is counted up to a bound, and once for each job, however much is watched', async (t) => {
  const { database, store, covered } = backfillOf(t)
  await eventually(() => store.jobs().length === 1)
  const repo = { rev: '', attempts: 0, nextAtMs: 0, detail: '' }
  database.transaction(() => {
    for (let i = 0; i < countedMax + 5; i++)
      store.putRepo(1, { ...repo, did: `did:plc:${i}`, state: 'unavailable' })
  })()
  const counting = t.mock.method(store, 'counts').mock
  assert.equal((await covered())?.unavailable, countedMax)
  assert.equal(counting.callCount(), 1)
})

test('neither a look for work nor a page of coverage reads every job that there ever was', async (t) => {
  const { clock, store, covered } = backfillOf(t)
  await eventually(() => store.jobs().length === 1)
  const reading = t.mock.method(store, 'jobs').mock
  clock.ms -= 30 * dayMs
  const looks = clock.waits + 3
  await eventually(() => clock.waits >= looks)
  assert.equal((await covered())?.hostname, host)
  assert.equal(reading.callCount(), 0)
})

test('a job that is retried has some repositories pending at a time, and is done after the last of them', async (t) => {
  const { clock, database, store } = backfillOf(t)
  await eventually(() => store.job(1)?.isListed === true)
  const repo = { rev: '', attempts: 0, nextAtMs: 0, detail: '', state: 'unavailable' } as const
  database.transaction(() => {
    for (let i = 0; i < 3000; i++) store.putRepo(1, { ...repo, did: `did:plc:${i}` })
  })()
  store.retry(1, clock.ms)
  const tried = new Set<string>()
  let most = 0
  await eventually(() => {
    const pending = store.due(1, { nowMs: clock.ms, lateMs: Infinity }, 5000)
    most = Math.max(most, pending.length)
    for (const each of pending) tried.add(each.did)
    database.transaction(() => pending.forEach((each) => store.deleteRepo(1, each)))()
    return store.job(1)?.state === 'done'
  })
  tried.delete(did)
  assert.equal(tried.size, 3000)
  assert.ok(most <= 1500, `${most} were pending`)
})

test('a look for work at the jobs of many PDSs takes many turns of the event loop', async (t) => {
  const { clock, database, store } = backfillOf(t)
  await eventually(() => store.jobs().length === 1)
  database.transaction(() => {
    for (let n = 0; n < 400; n++)
      store.begin({ host: `pds${n}.example.com`, collection: '', cause: 'host-added', revision: 1 }, 0)
  })()
  const looking = t.mock.method(store, 'pending').mock
  const looks = clock.waits + 500
  let most = 0
  for (let before = 0; clock.waits < looks && before < 2000; before = looking.callCount()) {
    await nextTurn()
    most = Math.max(most, looking.callCount() - before)
  }
  assert.ok(looking.callCount() >= 400)
  assert.ok(most <= 150, `${most} jobs in one turn`)
})

test('of many PDSs that do not answer some hundred are asked for their lists at a time', async (t) => {
  const { clock, database, store, requests } = backfillOf(t)
  await eventually(() => store.jobs().length === 1)
  const asking = t.mock.method(requests, 'ask', () => new Promise<never>(() => undefined)).mock
  database.transaction(() => {
    for (let n = 0; n < 400; n++)
      store.begin({ host: `pds${n}.example.com`, collection: '', cause: 'host-added', revision: 1 }, 0)
  })()
  const looks = clock.waits + 10
  await eventually(() => clock.waits >= looks)
  assert.ok(asking.callCount() > 100 && asking.callCount() <= 257, `${asking.callCount()} were asked`)
})

test('a relay that names hundreds of other PDSs each time has some of them taken note of in one turn', async (t) => {
  const { clock, store, requests } = backfillOf(t)
  await eventually(() => store.jobs().length === 1)
  const hostnames = Array.from({ length: 500 }, (_, n) => ({ hostname: `pds${n}.example.com` }))
  let hosts = hostnames
  t.mock.method(requests, 'ask', (_: string, method: string) =>
    method.startsWith('listHosts')
      ? Promise.resolve({ status: 200, body: Buffer.from(JSON.stringify({ hosts })) })
      : new Promise<never>(() => undefined),
  )
  /** The relay is asked once a minute. */
  const untilAsked = (isMet: () => boolean): Promise<void> =>
    eventually(() => {
      clock.ms += 60_000
      return isMet()
    })
  await untilAsked(() => store.hosts().length === 500)
  const removing = t.mock.method(store, 'removeHosts').mock
  hosts = []
  await untilAsked(() => store.hosts().length === 0 && store.activeJobs(0).length === 0)
  const most = Math.max(...removing.calls.map(({ arguments: [some] }) => [...some].length))
  assert.ok(most > 0 && most <= 200, `${most} in one turn`)
})

test('marked repositories are read, though others before them have lost their mark since the last save', async (t) => {
  const { states, outcomes, save } = backfillOf(t)
  const dids = Array.from({ length: 120 }, (_, n) => `did:plc:${String(n).padStart(3, '0')}`)
  for (const each of dids) states.set(each, { ...unknownRepo, needsRefetch: true })
  await save()
  states.set('did:plc:000', unknownRepo)
  await eventually(() => {
    for (const { resolve } of outcomes) resolve({ is: 'unavailable', detail: 'moved' })
    return outcomes.length >= 120
  })
})

/** Four PDSs that list more than can be read at a time, and a fifth one that lists little. */
const busyHosts = ['a', 'b', 'c', 'd', 'e'].map((name) => `${name}.example.com`)
const nameIn = (origin: string): string => /[a-e](?=\.example)/.exec(origin)?.[0] ?? ''

test('a PDS that lists one repository has it read before all those of four others that list many', async (t) => {
  const listedBy = (origin: string): string[] =>
    Array.from({ length: nameIn(origin) === 'e' ? 1 : 50 }, (_, n) => `did:plc:${nameIn(origin)}${n}`)
  const { clock, store, outcomes, wishes } = backfillOf(t, { hosts: busyHosts, listedBy })
  await eventually(() => store.jobs().length === 5 && store.pending(5) === 1 && wishes.length === 8)
  const looks = clock.waits + 3
  await eventually(() => clock.waits >= looks)
  // A round of all five.
  for (const { resolve } of outcomes.slice(0, 5)) resolve({ is: 'later', detail: 'slow' })
  await eventually(() => wishes.length === 13)
  assert.ok(wishes.some((wish) => wish.host === busyHosts[4]))
})

test('a marked repository of another PDS is read before all those that four others list', async (t) => {
  const listedBy = (origin: string): string[] =>
    nameIn(origin) === 'e' ? [] : Array.from({ length: 50 }, (_, n) => `did:plc:${nameIn(origin)}${n}`)
  const hostOf = (each: string): string => `${each.at(8)}.example.com`
  const { clock, states, outcomes, wishes, save } = backfillOf(t, { hosts: busyHosts, listedBy, hostOf })
  await eventually(() => wishes.length === 8)
  for (let n = 0; n < 300; n++) states.set(`did:plc:a${n}`, { ...unknownRepo, needsRefetch: true })
  states.set('did:plc:e', { ...unknownRepo, needsRefetch: true })
  await save()
  const looks = clock.waits + 10
  await eventually(() => clock.waits >= looks)
  for (const { resolve } of outcomes.slice(0, 5)) resolve({ is: 'later', detail: 'slow' })
  await eventually(() => wishes.length === 13)
  assert.ok(wishes.slice(8).some((wish) => wish.did === 'did:plc:e'))
})

test('the next repository is begun as soon as one has been read', async (t) => {
  const listed = Array.from({ length: 20 }, (_, n) => `did:plc:${n}`)
  const { clock, outcomes, wishes } = backfillOf(t, { listed })
  await eventually(() => wishes.length === 2)
  // Nothing comes of waiting for the next look any more.
  t.mock.method(clock, 'after', () => ({ [Symbol.dispose]: () => {} }))
  for (let read = 0; read < 20; read++) {
    await eventually(() => outcomes.length > read)
    outcomes[read]?.resolve({ is: 'later', detail: 'away' })
  }
  assert.equal(new Set(wishes.map((wish) => wish.did)).size, 20)
})

test('no more repositories are begun while it is not saved what became of hundreds', async (t) => {
  const listed = Array.from({ length: 700 }, (_, n) => `did:plc:${n}`)
  const { clock, states, store, outcomes, save } = backfillOf(t, { listed })
  await eventually(() => store.pending(1) === 700 && outcomes.length === 2)
  const noting = t.mock.method(states, 'alongside').mock
  // All of them have come by now.
  for (const each of listed) states.set(each, { ...unknownRepo, rev: '3l22222222222', completeRevision: 1 })
  for (const { resolve } of outcomes) resolve({ is: 'whole' })
  await eventually(() => noting.callCount() >= 500)
  const looks = clock.waits + 3
  await eventually(() => clock.waits >= looks)
  assert.ok(noting.callCount() <= 501, `${noting.callCount()} were begun`)
  await save()
  await eventually(() => noting.callCount() === 700)
})

test('marked accounts whose documents are not known take the places of their hosts when they are', async (t) => {
  const hosts = [host, 'other.example.com', 'third.example.com']
  const { states, store, wishes, save } = backfillOf(t, { hosts, listed: [], hostOf: () => '' })
  await eventually(() => store.jobs().filter(({ state }) => state === 'done').length === hosts.length)
  for (let n = 0; n < 20; n++) states.set(`did:plc:${n}`, { ...unknownRepo, needsRefetch: true })
  await save()
  const begun = async (count: number): Promise<FillWish[]> => {
    await eventually(() => wishes.length === count)
    return wishes.slice(-2)
  }
  for (const [count, name] of [
    [2, 'other.example.com'],
    [4, 'third.example.com'],
  ] as const)
    assert.deepEqual(
      (await begun(count)).map(({ mayAsk }) => mayAsk?.(name)),
      [true, true],
    )
  assert.deepEqual(
    (await begun(6)).map(({ mayAsk }) => mayAsk?.('other.example.com')),
    [false, false],
  )
})

test('marked accounts of hosts that the relay does not read hold up none whose documents are not known', async (t) => {
  const { states, store, wishes, save } = backfillOf(t, { listed: [], hostOf: () => '' })
  await eventually(() => store.jobs().some(({ state }) => state === 'done'))
  for (let n = 0; n < 20; n++) states.set(`did:plc:${n}`, { ...unknownRepo, needsRefetch: true })
  await save()
  for (const [count, name, mayAsk] of [
    [2, 'evil.example.com', true],
    [4, 'wicked.example.com', false],
    [4, host, true],
    [6, host, false],
  ] as const) {
    await eventually(() => wishes.length === count)
    assert.deepEqual(
      wishes.slice(-2).map((wish) => wish.mayAsk?.(name)),
      [mayAsk, mayAsk],
    )
  }
})

test('a host with two large repositories in the line has its others read', async (t) => {
  const listed = [1, 2, 3, 4].map((n) => `did:plc:${String(n).repeat(24)}`)
  const { wishes } = backfillOf(t, { listed })
  await eventually(() => wishes.length === 2)
  const turns = (): unknown[] => wishes.slice(-2).map(({ largeTurn }) => largeTurn?.())
  assert.deepEqual(turns(), [host, host])
  await eventually(() => wishes.length === 4)
  assert.deepEqual(turns(), [undefined, undefined])
})

test('a repository that was put off is tried soon, and not given up after one bad answer', async (t) => {
  const { clock, store, outcomes, save } = backfillOf(t)
  const putOff = { is: 'later', detail: 'others come first', isPutOff: true } as const
  for (const outcome of [
    ...Array.from({ length: 6 }, () => putOff),
    { is: 'refused', detail: 'no' } as const,
  ]) {
    await eventually(() => outcomes.length > 0)
    outcomes.shift()?.resolve(outcome)
    await save()
    clock.ms += 30_000
  }
  const [repo] = store.repos(1, '', 1)
  assert.deepEqual([repo?.state === 'failed', repo?.attempts], [false, 1])
})

test('a clock that is set back keeps no repository, no host and no list of hosts from being asked', async (t) => {
  const { clock, outcomes, asked, save } = backfillOf(t)
  await eventually(() => outcomes.length === 1)
  outcomes[0]?.resolve({ is: 'later', detail: 'away' })
  await save()
  clock.ms -= 30 * dayMs
  const lists = () => asked.filter((method) => method.startsWith('listHosts')).length
  const before = lists()
  const looks = clock.waits + 20
  await eventually(() => clock.waits >= looks)
  assert.equal(outcomes.length, 2)
  assert.ok(lists() > before)
})
