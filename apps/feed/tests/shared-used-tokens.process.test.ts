/** Tokens that replicas of the feed have spent, in a PostgreSQL database that they share. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { eventually, Postgres, PostgresPooler, PostgresProxy, runOnPostgres } from '@tributary/testkit'
import pg from 'pg'
import { SharedUsedTokens } from '../src/auth/shared-used-tokens.ts'
import type { TokenVerdict } from '../src/auth/used-tokens.ts'
import { did } from './sample.ts'
import { request, TestFeed } from './test-feed.ts'
import { getFeedSkeleton, TokenIssuer } from './token-issuer.ts'

const noonMs = Date.parse('2026-03-04T12:00:00Z')
const noonSeconds = noonMs / 1000
const alice = did('alice')
const bounds = { perIssuer: 512, perNetwork: 4096, inAll: 5000 }
const network = '192.0.2.1'
let server: Postgres
before(async () => {
  server = await Postgres.start()
})
after(() => server[Symbol.asyncDispose]())

async function newDatabase(): Promise<string> {
  const name = `tokens_${randomBytes(8).toString('hex')}`
  await runOnPostgres(server.urlOf('postgres'), `create database ${name}`)
  return server.urlOf(name)
}

/** Spends a token that lives for a minute from noon. */
function spend(
  store: SharedUsedTokens,
  nonce: string,
  issuer: Did = alice,
  expiresAt = noonSeconds + 60,
): Promise<TokenVerdict> {
  return store.spend({ issuer, nonce, expiresAt, network })
}

/** Keeps all others from the table of tokens. */
class TableLock implements AsyncDisposable {
  readonly #operator: pg.Client

  private constructor(operator: pg.Client) {
    this.#operator = operator
  }

  static async take(url: string): Promise<TableLock> {
    const operator = new pg.Client({ connectionString: url })
    await operator.connect()
    await operator.query('begin; lock table "usedTokens" in access exclusive mode')
    return new TableLock(operator)
  }

  async untilAwaited(): Promise<void> {
    while ((await this.#operator.query('select 1 from pg_locks where not granted')).rows.length === 0);
  }

  async free(): Promise<void> {
    await this.#operator.query('rollback')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#operator.end()
  }
}

/** Makes so many live tokens of an issuer. */
function fill(url: string, issuer: Did, count: number, from = network): Promise<void> {
  return runOnPostgres(
    url,
    `insert into "usedTokens" select '${issuer}', convert_to('n' || n, 'UTF8'), ${noonMs + 61_000}, '${from}'
     from generate_series(1, ${count}) as n`,
  )
}

test('a token that one replica has taken is refused by another, and after a restart', async () => {
  const url = await newDatabase()
  const at = () => noonMs
  {
    await using one = new SharedUsedTokens(url, at, bounds)
    await using other = new SharedUsedTokens(url, at, bounds)
    assert.equal(await spend(one, 'a'), 'spent')
    assert.equal(await spend(other, 'a'), 'used')
    assert.equal(await spend(other, 'a', did('bob')), 'spent', 'of another issuer')
    assert.equal(await spend(other, 'a\0'), 'spent', 'another one, with a character that text does not take')
  }
  await using again = new SharedUsedTokens(url, at, bounds)
  assert.equal(await spend(again, 'a'), 'used')
})

test('of replicas that spend the same tokens at the same time exactly one succeeds with each', async () => {
  const url = await newDatabase()
  const stores = [1, 2, 3].map(() => new SharedUsedTokens(url, () => noonMs, bounds))
  const nonces = Array.from({ length: 40 }, (_, n) => `n${n}`)
  const verdicts = await Promise.all(
    nonces.map((nonce) => Promise.all(stores.map((store) => spend(store, nonce)))),
  )
  for (const each of verdicts) assert.deepEqual(each.toSorted(), ['spent', 'used', 'used'])
  for (const store of stores) await store[Symbol.asyncDispose]()
})

test('an issuer is full at 512 live tokens, a network at 4096, and all together, until they expire', async () => {
  const url = await newDatabase()
  const clock = { ms: noonMs }
  await using store = new SharedUsedTokens(url, () => clock.ms, bounds)
  await store.prepare()
  await fill(url, alice, 511)
  assert.equal(await spend(store, 'last'), 'spent')
  assert.equal(await spend(store, 'one more'), 'full')
  assert.equal(await spend(store, 'n1'), 'used')
  assert.equal(await spend(store, 'n1', did('bob')), 'spent')
  for (let i = 0; i < 6; i++) await fill(url, did(`filler${i}x`), 512)
  await fill(url, did('fillerx'), 511)
  assert.equal(await spend(store, 'n1', did('newcomer')), 'full')
  assert.equal(await spend(store, 'n1', did('bob')), 'used')
  const elsewhere = { issuer: did('newcomer'), expiresAt: noonSeconds + 60, network: '198.51.100.1' }
  assert.equal(await store.spend({ ...elsewhere, nonce: 'n1' }), 'spent', 'of another network')
  await fill(url, did('fillery'), 903, '198.51.100.2')
  assert.equal(await store.spend({ ...elsewhere, nonce: 'n2' }), 'full', 'all together')
  clock.ms += 61_000
  assert.equal(await spend(store, 'n3', did('newcomer'), noonSeconds + 120), 'spent')
})

test('networks take turns, and of one only so many wait', async () => {
  await using store = new SharedUsedTokens(await newDatabase(), () => noonMs, bounds)
  await store.prepare()
  const order: string[] = []
  const use = async (nonce: string, from: string): Promise<TokenVerdict> => {
    const token = { issuer: did(`of-${nonce}`), nonce, expiresAt: noonSeconds + 60, network: from }
    const verdict = await store.spend(token)
    order.push(from)
    return verdict
  }
  const many = Array.from({ length: 110 }, (_, n) => use(`m${n}`, network))
  const one = use('one', '198.51.100.1')
  assert.equal(await one, 'spent')
  const verdicts = await Promise.all(many)
  const spent = verdicts.filter((verdict) => verdict === 'spent').length
  assert.deepEqual(
    [spent, new Set(verdicts)],
    [104, new Set(['spent', 'full'])],
    'four are under way at once',
  )
  const before = order.filter((from, at) => from === network && at < order.indexOf('198.51.100.1')).length
  assert.ok(before <= 6 + 8, `${before} came before the one of another network`)
})

test('a nonce is free again when its token has ended, although nothing has dropped it yet', async () => {
  const clock = { ms: noonMs }
  await using store = new SharedUsedTokens(await newDatabase(), () => clock.ms, bounds)
  assert.equal(await spend(store, 'a'), 'spent')
  clock.ms += 60_999
  assert.equal(await spend(store, 'a', alice, noonSeconds + 120), 'used')
  clock.ms += 1
  assert.equal(await spend(store, 'a', alice, noonSeconds + 120), 'spent')
  assert.equal(await spend(store, 'a', alice, noonSeconds + 120), 'used')
})

test('a clock that goes back brings no dropped token back, to no replica', async () => {
  const url = await newDatabase()
  const ahead = { ms: noonMs }
  await using one = new SharedUsedTokens(url, () => ahead.ms, bounds)
  await using other = new SharedUsedTokens(url, () => noonMs, bounds)
  assert.equal(await spend(one, 'a'), 'spent')
  assert.equal(await spend(other, 'a', alice, noonSeconds + 30), 'used')
  ahead.ms += 80_000
  assert.equal(await spend(one, 'b', alice, noonSeconds + 120), 'spent', 'drops a')
  ahead.ms -= 80_000
  assert.equal(await spend(one, 'c', alice, noonSeconds + 70), 'expired', 'by the clock that it had')
  assert.equal(await spend(other, 'a'), 'expired', 'by the entry that was dropped')
  assert.equal(await spend(other, 'c', alice, noonSeconds + 90), 'spent')
})

test('a token that one feed has served is refused by its replica, also after both started again', async () => {
  const usedTokensUrl = await newDatabase()
  await using one = await TestFeed.start({ settings: { usedTokensUrl } })
  await using other = await TestFeed.start({ settings: { usedTokensUrl, plcUrl: one.didHost.url } })
  const viewer = await TokenIssuer.register(one.didHost, 'viewer')
  const call = async (feed: TestFeed, token: string): Promise<[number, string | null]> => {
    const { status, headers } = await feed.call(getFeedSkeleton, request({}), {
      authorization: `Bearer ${token}`,
    })
    return [status, headers.get('www-authenticate')]
  }
  const token = await viewer.token()
  assert.deepEqual(await call(one, token), [200, null])
  assert.deepEqual(await call(other, token), [401, 'Bearer error="NonceNotUnique"'])
  for (const feed of [one, other]) {
    await feed.restart()
    assert.deepEqual(await call(feed, token), [401, 'Bearer error="NonceNotUnique"'])
  }
  assert.deepEqual(await call(other, await viewer.token()), [200, null])
})

test('tokens are spent once behind a pooler that gives each transaction another session', async () => {
  await using pooler = await PostgresPooler.start(await newDatabase())
  await using store = new SharedUsedTokens(pooler.url, () => noonMs, bounds)
  const verdicts = await Promise.all(['a', 'a', 'b'].map((nonce) => spend(store, nonce)))
  assert.deepEqual(verdicts.toSorted(), ['spent', 'spent', 'used'])
})

test('a connection that breaks while a token is spent costs that call', async () => {
  const url = await newDatabase()
  await using proxy = await PostgresProxy.start(url)
  await using store = new SharedUsedTokens(proxy.url, () => noonMs, bounds)
  await store.prepare()
  await using lock = await TableLock.take(url)
  const spending = spend(store, 'a')
  await lock.untilAwaited()
  proxy.cut()
  await assert.rejects(spending, /Connection terminated/)
  await lock.free()
  assert.equal(await spend(store, 'a'), 'spent')
})

test('a call that waits too long for its verdict fails, and its token is not spent afterwards', async (t) => {
  const url = await newDatabase()
  await using store = new SharedUsedTokens(url, () => noonMs, bounds)
  await store.prepare()
  await using lock = await TableLock.take(url)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const spending = spend(store, 'a')
  await lock.untilAwaited()
  t.mock.timers.tick(5000)
  await assert.rejects(spending, /did not answer in time/)
  await lock.free()
  t.mock.timers.reset()
  assert.equal(await spend(store, 'a'), 'spent')
})

test('a feed that starts while the database of tokens is away serves anonymous calls, and tokens later', async () => {
  await using proxy = await PostgresProxy.start(await newDatabase())
  proxy.isAway = true
  await using feed = await TestFeed.start({ settings: { usedTokensUrl: proxy.url } })
  const viewer = await TokenIssuer.register(feed.didHost, 'viewer')
  const statusOf = async (headers: Record<string, string>, params: object = {}): Promise<number> =>
    (await feed.call(getFeedSkeleton, request(params), headers)).status
  assert.equal(await statusOf({}, { viewerDid: alice }), 200)
  assert.equal(await statusOf({ authorization: `Bearer ${await viewer.token()}` }), 500)
  proxy.isAway = false
  const token = await viewer.token()
  assert.equal(await statusOf({ authorization: `Bearer ${token}` }), 200)
  assert.equal(await statusOf({ authorization: `Bearer ${token}` }), 401)
})

test('a replica whose machine is gone within a transaction does not keep the others from theirs', async () => {
  const url = await newDatabase()
  await using proxy = await PostgresProxy.start(url)
  const gone = new SharedUsedTokens(proxy.url, () => noonMs, bounds)
  await using store = new SharedUsedTokens(url, () => noonMs, bounds)
  await store.prepare()
  proxy.silentAfter = 'pg_advisory_xact_lock'
  const lost = assert.rejects(spend(gone, 'a'))
  await eventually(() => proxy.isSilent)
  let count = 0
  await eventually(async () => (await spend(store, `b${count++}`).catch(() => undefined)) === 'spent')
  proxy.cut()
  await lost
  await gone[Symbol.asyncDispose]()
})
