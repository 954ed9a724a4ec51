import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import {
  createResolver,
  IdentityError,
  type IdentityResolver,
  type ResolveOptions,
} from '@tributary/identity'
import { parseDatetime } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { type Account, eventually, startNetwork } from '@tributary/testkit'
import { did as didOf, putEvent, Scenario } from '../../tests/scenario.ts'
import { Tally } from '../../tests/tally.ts'
import { GoneAnswers } from '../gone-answers.ts'
import { sweepAccounts } from './account-sweep.ts'

const logger = createLogger('index-test', { level: 'silent' })
const allowedPrivateHosts = ['localhost']
const dayMs = 86_400_000

/** For a world that is caught up, whose accounts are asked about once a day. */
const optionsOf = ({ connection, fold }: Scenario) => ({
  writer: connection,
  fold,
  allowedPrivateHosts,
  everyMs: dayMs,
  // Accounts come one after the other: whoever finds no place at a host is put off, and most clocks here stand still.
  paceMs: 125,
  isCaughtUp: () => true,
  newestEventAt: () => undefined,
  logger,
})

async function write(world: Scenario, account: Account, rkey: string): Promise<void> {
  const { event } = putEvent(world.nextSeq(), world.now, rkey, 'org.impact.context.evaluation', rkey, {})
  await world.send({ ...event, did: account.did as Did }) // an account of a real PDS
}

test('an account whose deactivation, deletion or return was missed is found at its host', async () => {
  await using network = await startNetwork()
  await using world = await Scenario.start()
  const active = await network.createAccount()
  const leaving = await network.createAccount()
  const deleted = await network.createAccount()
  await write(world, active, 'active')
  await write(world, leaving, 'leaving')
  await write(world, deleted, 'deleted')
  await leaving.deactivate()
  await deleted.deleteAccount()

  // Time passes, because an account whose host has no place at the moment is put off.
  let aheadMs = 0
  const nowMs = (): number => Date.now() + aheadMs
  const results = new Tally<string>()
  const stop = new AbortController()
  const resolver = createResolver({ plcUrl: network.plcUrl, allowedPrivateHosts, nowMs })
  const options = {
    ...optionsOf(world),
    resolver,
    goneAnswers: new GoneAnswers({ onDoubt: () => undefined, nowMs }),
    onChecked: results.add,
    nowMs,
  }
  const sweep = async (changed: number, agrees: number): Promise<void> => {
    const stopping = new AbortController()
    const done = sweepAccounts(options, AbortSignal.any([stop.signal, stopping.signal]))
    await results.until('changed', changed)
    await results.until('agrees', agrees)
    stopping.abort()
    await done
  }

  await world.connection.write((batch) => batch.clear('handleRequests'))
  await sweep(2, 1)
  assert.equal((await world.rows('handleRequests')).length, 3, 'their handles are looked at again')
  assert.deepEqual(await world.entries(), ['evaluation.create active'])
  assert.equal((await world.rows('records')).length, 3)

  await leaving.activate()
  aheadMs = 2 * dayMs
  await sweep(3, 3)
  assert.deepEqual((await world.entries()).toSorted(), [
    'evaluation.create active',
    'evaluation.create leaving',
  ])
})

test('an account that writes again after it was deleted is shown when its host says that it is active', async (t) => {
  await using world = await Scenario.start()
  const active = new Set([didOf('back'), didOf('last')])
  using host = await startHost((did) => ({ did, active: active.has(did as Did) })) // a DID of this test
  for (const name of ['back', 'away', 'silent']) {
    await world.put(name, 'org.impact.context.evaluation', `${name}Before`, {})
    await world.account(name, false, 'deleted')
    if (name !== 'silent') await world.put(name, 'org.impact.context.evaluation', name, {})
  }
  assert.deepEqual(await world.entries(), [])
  await world.put('last', 'org.impact.context.evaluation', 'last', {})
  const last = (await world.rows('accounts')).filter(({ did }) => did === didOf('last'))
  await world.connection.write((batch) =>
    batch.put(
      'accounts',
      last.map((account) => ({ ...account, checkedAt: 1n })),
    ),
  )
  const asked = new Set<string>()
  const resolve = async (did: Did): Promise<object> => {
    asked.add(did)
    return { pdsUrl: host.url, fetchedAt: Date.now() }
  }
  const results: string[] = []
  const stop = new AbortController()
  t.after(() => stop.abort())
  const done = sweepAccounts(
    {
      ...optionsOf(world),
      resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
      onChecked: (result: string) => results.push(result),
    },
    stop.signal,
  )
  await eventually(() => asked.has(didOf('last')) && results.length === asked.size)
  stop.abort()
  await done
  assert.deepEqual((await world.entries()).toSorted(), ['evaluation.create back', 'evaluation.create last'])
  assert.deepEqual([...asked].toSorted(), ['away', 'back', 'last'].map(didOf))
})

test('a host that gives no answer changes nothing, and the account is not asked again at once', async () => {
  await using network = await startNetwork()
  await using world = await Scenario.start()
  const account = await network.createAccount()
  await write(world, account, 'kept')
  await network.pds[0]?.stop()
  const results = new Tally<string>()
  const stop = new AbortController()
  const done = sweepAccounts(
    {
      ...optionsOf(world),
      resolver: createResolver({ plcUrl: network.plcUrl, allowedPrivateHosts }),
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
      onChecked: results.add,
    },
    stop.signal,
  )
  await results.until('no-answer', 1)
  stop.abort()
  await done
  assert.deepEqual(await world.entries(), ['evaluation.create kept'])
  assert.notEqual((await world.rows('accounts'))[0]?.checkedAt, 0n)
})

/** A host that says of every account that is asked about what `answer` is. */
async function startHost(answer: (did: string) => unknown) {
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://localhost')
    response.end(JSON.stringify(answer(searchParams.get('did') ?? '')))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://localhost:${(server.address() as AddressInfo).port}`
  return { url, [Symbol.dispose]: () => server.close().closeAllConnections() }
}

test('an account is hidden on the word of its present host alone, and of its directory', async (t) => {
  await using world = await Scenario.start()
  using host = await startHost((did) => {
    if (did === didOf('confused')) return { did: didOf('other'), active: false, status: 'deactivated' }
    return { did, active: false, status: 'deactivated' }
  })
  for (const name of ['left', 'moved', 'confused', 'away', 'gone']) {
    await world.put(name, 'org.impact.context.evaluation', name, {})
  }
  let asked = 0
  let nowMs = Date.now()
  const resolve = async (did: Did, { refreshAfter = 0 }: ResolveOptions = {}): Promise<object> => {
    asked++
    if (did === didOf('away')) throw new IdentityError('unavailable', 'the directory does not answer')
    if (did === didOf('gone')) throw new IdentityError('not-found', 'a tombstone')
    const isFresh = nowMs - refreshAfter < 60_000
    const pdsUrl = did === didOf('moved') && isFresh ? 'http://elsewhere.invalid' : host.url
    return { pdsUrl, fetchedAt: nowMs }
  }
  const stop = new AbortController()
  t.after(() => stop.abort())
  const results: string[] = []
  const options = {
    ...optionsOf(world),
    resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
    goneAnswers: new GoneAnswers({ onDoubt: () => undefined, nowMs: () => nowMs }),
    onChecked: (result: string) => results.push(result),
    nowMs: () => nowMs,
  }
  // Behind, the stream may have told of what a host would be asked for.
  const behind = new AbortController()
  const idle = sweepAccounts({ ...options, isCaughtUp: () => false }, behind.signal)
  await delay(50)
  behind.abort()
  await idle
  assert.equal(asked, 0)
  const sweepUntil = async (count: number): Promise<void> => {
    const stopping = new AbortController()
    const done = sweepAccounts(options, AbortSignal.any([stop.signal, stopping.signal]))
    await eventually(
      () => results.length === count,
      () => results,
    )
    stopping.abort()
    await done
  }
  await sweepUntil(5)
  assert.deepEqual(results.toSorted(), ['changed', 'doubted', 'no-answer', 'no-answer', 'no-answer'])
  assert.ok((await world.entries()).includes('evaluation.create gone'), 'one answer is not enough')
  nowMs += 1_000_000
  await sweepUntil(7)
  assert.deepEqual((await world.entries()).toSorted(), [
    'evaluation.create away',
    'evaluation.create confused',
    'evaluation.create moved',
  ])
})

test('an account that is not active is not shown again on the word of a host that it has left', async () => {
  await using world = await Scenario.start()
  using host = await startHost((did) => ({ did, active: true }))
  for (const name of ['moved', 'back']) {
    await world.put(name, 'org.impact.context.evaluation', name, {})
    await world.account(name, false, 'deactivated')
  }
  const nowMs = Date.now()
  const resolve = async (did: Did, { refreshAfter = 0 }: ResolveOptions = {}): Promise<object> => {
    const isFresh = refreshAfter >= nowMs
    return {
      pdsUrl: did === didOf('moved') && isFresh ? 'http://elsewhere.invalid' : host.url,
      fetchedAt: nowMs,
    }
  }
  const results: string[] = []
  const stop = new AbortController()
  const done = sweepAccounts(
    {
      ...optionsOf(world),
      resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined, nowMs: () => nowMs }),
      onChecked: (result: string) => results.push(result),
      nowMs: () => nowMs,
    },
    stop.signal,
  )
  await eventually(
    () => results.length === 2,
    () => results,
  )
  stop.abort()
  await done
  assert.deepEqual(await world.entries(), ['evaluation.create back'])
})

test('a document that was read before does not show that the directory finds accounts', async (t) => {
  await using world = await Scenario.start()
  using host = await startHost((did) => ({ did, active: true }))
  for (const name of ['known', 'gone']) await world.put(name, 'org.impact.context.evaluation', name, {})
  let nowMs = Date.now()
  const goneAnswers = new GoneAnswers({ onDoubt: () => undefined, nowMs: () => nowMs })
  const resolve = async (did: Did): Promise<object> => {
    if (did === didOf('gone')) throw new IdentityError('not-found', 'there is no such DID')
    return { pdsUrl: host.url, fetchedAt: nowMs - 1000 }
  }
  const results: string[] = []
  for (const count of [2, 3, 4]) {
    const stop = new AbortController()
    t.after(() => stop.abort())
    const done = sweepAccounts(
      {
        ...optionsOf(world),
        resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
        goneAnswers,
        onChecked: (result: string) => results.push(result),
        nowMs: () => nowMs,
      },
      stop.signal,
    )
    await eventually(
      () => results.length === count,
      () => results,
    )
    stop.abort()
    await done
    nowMs += 1_000_000
  }
  assert.deepEqual(results.toSorted(), ['agrees', 'doubted', 'doubted', 'doubted'])
})

test('a host that never answers holds up no questions to others', async (t) => {
  await using world = await Scenario.start()
  let unanswered = 0
  const server = createServer(() => unanswered++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close().closeAllConnections())
  const silent = `http://localhost:${(server.address() as AddressInfo).port}` // it listens
  using honest = await startHost((did) => ({ did, active: false, status: 'deactivated' }))
  for (let n = 0; n < 70; n++) await world.put(`n${n}`, 'org.impact.context.evaluation', `n${n}`, {})
  await world.put('left', 'org.impact.context.evaluation', 'left', {})
  // The others come first.
  const account = (await world.rows('accounts')).find(({ did }) => did === didOf('left'))
  assert.ok(account)
  await world.connection.write((batch) => batch.put('accounts', [{ ...account, checkedAt: 1n }]))
  const resolve = async (did: Did): Promise<object> => ({ pdsUrl: did === account.did ? honest.url : silent })
  const stop = new AbortController()
  t.after(() => stop.abort())
  const results = new Tally<string>()
  const done = sweepAccounts(
    {
      ...optionsOf(world),
      resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
      paceMs: 1,
      // Its turns are not what keeps it from being asked.
      hostPaceMs: 1,
      onChecked: results.add,
    },
    stop.signal,
  )
  await results.until('changed', 1)
  stop.abort()
  await done
  assert.ok(unanswered <= 32, `${unanswered} accounts of one host were asked about before`)
})

test('what a host calls the status of an account is stored only if it is a short word', async (t) => {
  await using world = await Scenario.start()
  const statuses = new Map([
    [didOf('nul'), 'taken\u0000down'],
    [didOf('half'), '\ud800'],
    [didOf('long'), 'x'.repeat(10_000)],
    [didOf('contrary'), 'active'],
    [didOf('usual'), 'suspended'],
  ])
  using host = await startHost((did) => ({ did, active: false, status: statuses.get(did as Did) }))
  for (const name of ['nul', 'half', 'long', 'contrary', 'usual'])
    await world.put(name, 'org.impact.context.evaluation', name, {})
  const stop = new AbortController()
  t.after(() => stop.abort())
  const results = new Tally<string>()
  const resolver = { resolve: async () => ({ pdsUrl: host.url }) }
  const done = sweepAccounts(
    {
      ...optionsOf(world),
      resolver: resolver as unknown as IdentityResolver, // as far as it is asked
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
      onChecked: results.add,
    },
    stop.signal,
  )
  await results.until('changed', 5)
  stop.abort()
  await done
  const stored = (await world.rows('accounts')).map(({ did, hostStatus }) => [did, hostStatus])
  assert.deepEqual(
    new Map(stored as [Did, string][]), // as the table has them
    new Map([...statuses.keys()].map((did) => [did, did === didOf('usual') ? 'suspended' : 'inactive'])),
  )
})

test('an account that was asked about by a clock that was ahead is asked about when the clock was put right', async (t) => {
  await using world = await Scenario.start()
  await world.put('A', 'org.impact.context.evaluation', 'a', {})
  const resolver = { resolve: async () => ({ pdsUrl: undefined }) }
  const sweep = async (nowMs: number): Promise<void> => {
    const stop = new AbortController()
    t.after(() => stop.abort())
    const results = new Tally<string>()
    const done = sweepAccounts(
      {
        ...optionsOf(world),
        resolver: resolver as unknown as IdentityResolver, // as far as it is asked
        goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
        onChecked: results.add,
        nowMs: () => nowMs,
      },
      stop.signal,
    )
    await results.until('no-answer', 1)
    stop.abort()
    await done
  }
  await sweep(Date.UTC(2030))
  const nowMs = Date.UTC(2026)
  await sweep(nowMs)
  assert.equal((await world.rows('accounts'))[0]?.checkedAt, BigInt(nowMs) * 1000n)
})

test('places are forgotten also while there are always accounts to ask about', async (t) => {
  await using world = await Scenario.start()
  for (const rkey of ['A', 'B', 'C']) await world.put(rkey, 'org.impact.context.evaluation', rkey, {})
  await world.sync('A')
  assert.equal((await world.rows('superseded')).length, 1)
  let nowMs = Date.parse(world.now)
  const resolve = async (): Promise<never> => {
    throw new IdentityError('unavailable', 'the directory does not answer')
  }
  const checks = Promise.withResolvers<void>()
  let left = 12
  const stop = new AbortController()
  t.after(() => stop.abort())
  const done = sweepAccounts(
    {
      ...optionsOf(world),
      resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
      everyMs: 0,
      // Long enough for an account to be asked about, so that it is due again before the last one of a page is.
      paceMs: 50,
      newestEventAt: () => parseDatetime('2027-03-20T12:00:00Z'),
      // A month passes with each check, so all are due again.
      onChecked() {
        nowMs += 30 * dayMs
        if (--left === 0) checks.resolve()
      },
      nowMs: () => nowMs,
    },
    stop.signal,
  )
  await checks.promise
  stop.abort()
  await done
  assert.deepEqual(await world.rows('superseded'), [])
})

test('places of superseded records are kept by the clock of the stream, also while old events are read', async () => {
  await using world = await Scenario.start()
  const place = async () => (await world.rows('superseded'))[0]
  await world.put('A', 'org.impact.context.evaluation', 'old', {})
  await world.sync('A')
  let newestEventAt = parseDatetime(world.now)
  let nowMs = Date.parse(world.now)
  const sweep = async (): Promise<void> => {
    const stop = new AbortController()
    const done = sweepAccounts(
      {
        writer: world.connection,
        fold: world.fold,
        resolver: createResolver({ plcUrl: 'http://localhost:1', allowedPrivateHosts }),
        goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
        allowedPrivateHosts,
        everyMs: dayMs,
        isCaughtUp: () => false,
        newestEventAt: () => newestEventAt,
        logger,
        onChecked: () => undefined,
        nowMs: () => nowMs,
      },
      stop.signal,
    )
    // Behind everything that the sweep writes first.
    await world.connection.write(async () => undefined)
    stop.abort()
    await done
  }
  await sweep()
  assert.ok(await place())
  newestEventAt = parseDatetime('9999-03-20T12:00:00Z')
  await sweep()
  assert.ok(await place(), 'by the time of one event that is far from now')
  newestEventAt = parseDatetime('2026-03-20T12:00:00Z')
  nowMs = Date.parse('2026-04-01T12:00:00Z')
  await sweep()
  assert.equal(await place(), undefined)
})
