/** The relay's answers about accounts after events were lost. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import type { Clock } from '@tributary/lanes'
import { createLogger } from '@tributary/telemetry'
import { eventually } from '@tributary/testkit'
import type { AccountWord } from '../ingest/account-corrections.ts'
import { RepoStates, unknownRepo } from '../ingest/repo-states.ts'
import { openStateDatabase, type StateDatabase } from '../state-database.ts'
import { AccountCheck } from './account-check.ts'
import { type HostAnswer, HostAwayError } from './host-requests.ts'

const position = { relayUrl: '', epoch: 0, epochBeganMs: 0, cursor: 0 }
const known = { ...unknownRepo, rev: '3l2' }
const didOf = (n: number): string => `did:plc:${String(n).padStart(4, '0')}`
/** A clock that calls everything at once. */
const clock: Clock = {
  nowMs: () => 0,
  after: (_, call) => {
    const timer = setTimeout(call, 1)
    return { [Symbol.dispose]: () => clearTimeout(timer) }
  },
}

const statesIn = (database: StateDatabase): RepoStates =>
  new RepoStates(database, async (_, change) => database.transaction(change)())

/** A check that runs until the test stops it, and the accounts that it asks about. */
function checkOf(t: TestContext, database: StateDatabase, states = statesIn(database)) {
  const stop = new AbortController()
  const asked: string[] = []
  const corrected: [string, AccountWord][] = []
  const relay: { answer: (did: string) => Promise<HostAnswer> } = {
    answer: async () => ({ status: 200, body: Buffer.from('{"active":true}') }),
  }
  const requests = {
    ask: async (_: string, method: string) => {
      const did = decodeURIComponent(method.replace('getRepoStatus?did=', ''))
      asked.push(did)
      const stopped = once(stop.signal, 'abort').then(() => Promise.reject(new Error('the test is over')))
      return await Promise.race([relay.answer(did), stopped])
    },
  }
  const check = new AccountCheck({
    database,
    states,
    requests: requests as never, // as far as it is used
    relayUrl: 'https://relay.example.com',
    corrections: { correct: async (did, word) => void corrected.push([did, word]) },
    asked: async (ask) => await ask(),
    logger: createLogger('test', { level: 'silent' }),
    clock,
    random: () => 0.5,
    signal: stop.signal,
  })
  const running = check.run().catch(() => {}) // by the stop
  const end = async (): Promise<void> => {
    stop.abort()
    await running
  }
  t.after(end)
  const save = async (): Promise<void> =>
    await states.save(position, { appliedSeq: 0, blockSeq: 0 }, Promise.resolve())
  /** Saves now and then, as an ingest does, until something holds. */
  const untilMet = (isMet: () => boolean): Promise<void> =>
    eventually(async () => {
      await save()
      return isMet()
    })
  return { check, states, asked, corrected, relay, end, save, untilMet }
}

function newDatabase(t: TestContext): StateDatabase {
  const database = openStateDatabase(':memory:')
  t.after(() => void database.close())
  return database
}

test('after events were lost every account is asked about of which the archive has something, and once', async (t) => {
  const { check, states, asked, corrected, relay, untilMet } = checkOf(t, newDatabase(t))
  for (let n = 0; n < 450; n++) states.set(didOf(n), known)
  states.set(didOf(1), { ...known, isHidden: true })
  states.set(didOf(2), { ...known, isHidden: true, isTakenDown: true })
  states.set(didOf(3), unknownRepo)
  states.set(didOf(4), { ...unknownRepo, backfillRev: '3l2' })
  relay.answer = async (did) => {
    const word = did === didOf(449) ? { active: false, status: 'deleted' } : { active: true }
    return did === didOf(5)
      ? { status: 400, body: Buffer.from('{"error":"RepoNotFound"}') }
      : { status: 200, body: Buffer.from(JSON.stringify(word)) }
  }
  assert.equal(check.reason, undefined)
  const before = states.dirtyCount
  check.begin()
  assert.match(String(check.reason), /events were lost/)
  // It begins before any of the accounts is stored.
  await eventually(() => states.dirtyCount > before)
  await untilMet(() => check.reason === undefined)
  const expected = Array.from({ length: 450 }, (_, n) => didOf(n)).toSpliced(2, 2)
  assert.deepEqual(asked.toSorted(), expected)
  assert.equal(corrected.length, 447)
  assert.deepEqual(corrected.at(-1), [didOf(449), { active: false, status: 'deleted' }])
})

test('a check goes on after a stop with all about whom it is not saved what the relay said', async (t) => {
  const database = newDatabase(t)
  const first = checkOf(t, database)
  for (let n = 0; n < 450; n++) first.states.set(didOf(n), known)
  const answer = first.relay.answer
  first.relay.answer = async (did) =>
    did >= didOf(250) ? await new Promise<never>(() => {}) : await answer(did)
  first.check.begin()
  await first.untilMet(() => first.asked.includes(didOf(250)))
  await first.end()
  const again = checkOf(t, database)
  assert.match(String(again.check.reason), /events were lost/)
  await again.untilMet(() => again.check.reason === undefined)
  assert.deepEqual([again.asked[0], again.asked.length], [didOf(200), 250])
})

test('when events are lost again meanwhile, all accounts are asked about from the first one on', async (t) => {
  const database = newDatabase(t)
  const { check, states, asked, relay, end, untilMet } = checkOf(t, database)
  for (let n = 0; n < 300; n++) states.set(didOf(n), known)
  const held = Promise.withResolvers<void>()
  const answer = relay.answer
  relay.answer = async (did) => {
    if (did >= didOf(250)) await held.promise
    if (asked.indexOf(did) !== asked.lastIndexOf(did)) await new Promise<never>(() => {})
    return await answer(did)
  }
  check.begin()
  await untilMet(() => asked.includes(didOf(250)))
  check.begin()
  held.resolve()
  await untilMet(() => asked.at(-1) === didOf(3))
  assert.equal(asked.length, 304)
  await end()
  const again = checkOf(t, database)
  await again.untilMet(() => again.check.reason === undefined)
  assert.equal(again.asked.length, 300)
})

test('an account of which the relay does not tell is marked, and holds up no other', async (t) => {
  const { check, states, asked, relay, untilMet } = checkOf(t, newDatabase(t))
  for (let n = 0; n < 20; n++) states.set(didOf(n), known)
  let reason: string | undefined
  const answer = relay.answer
  relay.answer = async (did) => {
    if (did === didOf(7)) {
      reason = check.reason
      throw new HostAwayError('the relay answered with 500')
    }
    return await answer(did)
  }
  check.begin()
  await untilMet(() => check.reason === undefined)
  const marked = asked.filter((did) => states.get(did)?.needsRefetch)
  assert.deepEqual([new Set(marked), marked.length], [new Set([didOf(7)]), 10])
  assert.equal(new Set(asked).size, 20)
  assert.match(String(reason), /answered with 500$/)
})
