/**
 * The tokens that were spent (feed.md 3.3), in a PostgreSQL database that all replicas of the feed share: a token that one
 * of them has taken is refused by the others. The rules are those of `used-tokens.ts`.
 *
 * Always holds: a token is on disk before its request is served; one token is spent at a time, over all replicas; and the
 * clock never goes back behind the end of an entry that any replica has dropped.
 */
import { FairTurns } from '@tributary/rates'
import pg from 'pg'
import {
  isFull,
  type SpentTokens,
  type TokenBounds,
  type TokenUse,
  type TokenVerdict,
} from './used-tokens.ts'

/** Names the lock of the store among the advisory locks of a database: the letters `trib` and `tokn`. */
const storeLock = [0x74726962, 0x746f6b6e] as const
/** Tokens are spent one at a time, so more connections would only wait. */
const connectionsMax = 4
/** Tokens that wait for their turn: those of one network, and all. */
const waitingMax = { ofNetwork: 100, inAll: 1000 }
/** Time for a connection, and for each statement with its wait for the lock. A call waits no longer for all of it together. */
const timeoutMs = 5000

const tables = `
  create table if not exists "usedTokens" (
    "issuer" text not null, "nonce" bytea not null, "goneAtMs" bigint not null, primary key ("issuer", "nonce")
  );
  create index if not exists "usedTokensByEnd" on "usedTokens" ("goneAtMs");
  alter table "usedTokens" add column if not exists "network" text not null default '';
  create index if not exists "usedTokensByNetwork" on "usedTokens" ("network");
  create table if not exists "droppedTokens" (
    "id" integer primary key check ("id" = 1), "throughMs" bigint not null
  );
  insert into "droppedTokens" values (1, 0) on conflict do nothing`

/**
 * Begins a transaction while no replica runs another one. The times are set here because PgBouncer refuses a connection that
 * asks for them. All of it is one message.
 */
const beginAlone = [
  'begin',
  `set local statement_timeout = ${timeoutMs}`,
  // A replica whose machine is gone does not keep the lock of all.
  `set local idle_in_transaction_session_timeout = ${timeoutMs}`,
  `select pg_advisory_xact_lock(${storeLock.join(', ')})`,
].join(';')

const look = `
  with clock as (select greatest($3::bigint, "throughMs") as "nowMs" from "droppedTokens")
  select "nowMs", exists (select 1 from "usedTokens"
      where "issuer" = $1 and "nonce" = $2 and "goneAtMs" > "nowMs") as "isUsed",
    (select count(*) from "usedTokens" where "issuer" = $1 and "goneAtMs" > "nowMs") as "ofIssuer",
    (select count(*) from "usedTokens" where "network" = $4 and "goneAtMs" > "nowMs") as "ofNetwork",
    (select count(*) from "usedTokens" where "goneAtMs" > "nowMs") as "ofAll"
  from clock`

/** Not one statement with the next, which may have the key of a token that is dropped. */
const drop = `
  with dropped as (delete from "usedTokens" where "goneAtMs" <= $1 returning "goneAtMs")
  update "droppedTokens" set "throughMs" = greatest("throughMs", (select max("goneAtMs") from dropped))
    where exists (select 1 from dropped)`

const take = `insert into "usedTokens" ("issuer", "nonce", "goneAtMs", "network") values ($1, $2, $3, $4)`

/** PostgreSQL gives bigint as text. */
interface Found {
  readonly nowMs: string
  readonly isUsed: boolean
  readonly ofIssuer: string
  readonly ofNetwork: string
  readonly ofAll: string
}

export class SharedUsedTokens implements SpentTokens, AsyncDisposable {
  readonly #pool: pg.Pool
  readonly #now: () => number
  readonly #bounds: TokenBounds
  /** Networks take turns, without pauses: a wait for the database is no work of ours. */
  readonly #turns = new FairTurns({ underWayMax: connectionsMax, sliceMs: Infinity })
  #latestMs = 0
  #hasTables = false

  /** @param now a clock in milliseconds since 1970 */
  constructor(url: string, now: () => number, bounds: TokenBounds) {
    this.#now = now
    this.#bounds = bounds
    this.#pool = new pg.Pool({
      connectionString: url,
      application_name: 'tributary feed tokens',
      max: connectionsMax,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: 2 * timeoutMs,
      keepAlive: true,
    })
    // An idle connection that is lost is replaced. Who uses a connection that is lost is told by the statement.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  /** Connects and makes the tables if need be, which each use does until one has worked. Storage errors are thrown. */
  async prepare(): Promise<void> {
    await this.#alone(async () => undefined)
  }

  /**
   * Marks a verified token as used. Of equal calls of all replicas exactly one gets `spent`. A network of which too many
   * wait gets `full`. Storage errors are thrown, also when there is no verdict in time, or when too many of all networks
   * wait: then the network with most gives way.
   */
  async spend(use: TokenUse): Promise<TokenVerdict> {
    if (this.#turns.sizeOf(use.network) >= waitingMax.ofNetwork) return 'full'
    const { promise: isTooLate, reject } = Promise.withResolvers<never>()
    const late = new AbortController()
    const timer = setTimeout(() => {
      late.abort(new Error('the database of used tokens did not answer in time'))
      reject(late.signal.reason)
    }, timeoutMs)
    try {
      const turn = this.#turns.run(use.network, () => this.#spend(use, late.signal))
      if (this.#turns.size > waitingMax.inAll)
        this.#turns.giveUpOne(new Error('too many tokens wait for their database'))
      return await Promise.race([turn, isTooLate])
    } finally {
      clearTimeout(timer)
    }
  }

  /** @param late aborts when nobody waits for the verdict any more: then the token is not spent, and holds up no other */
  async #spend({ issuer, nonce, expiresAt, network }: TokenUse, late: AbortSignal): Promise<TokenVerdict> {
    late.throwIfAborted()
    // As bytes, because text of PostgreSQL does not take every character.
    const key = Buffer.from(nonce)
    return this.#alone(async (client) => {
      this.#latestMs = Math.max(this.#now(), this.#latestMs)
      const { rows } = await client.query<Found>(look, [issuer, key, this.#latestMs, network])
      const [found] = rows
      if (found === undefined) throw new Error('the store of used tokens has lost its clock')
      const goneAtMs = (expiresAt + 1) * 1000
      if (goneAtMs <= Number(found.nowMs)) return 'expired'
      if (found.isUsed) return 'used'
      const { ofIssuer, ofNetwork, ofAll } = found
      const counts = { ofIssuer: Number(ofIssuer), ofNetwork: Number(ofNetwork), ofAll: Number(ofAll) }
      if (isFull(counts, this.#bounds)) return 'full'
      await client.query(drop, [found.nowMs])
      await client.query(take, [issuer, key, goneAtMs, network])
      late.throwIfAborted()
      return 'spent'
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.end()
  }

  /** Runs `work` in a transaction while no replica runs another one. */
  async #alone<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect()
    let isUsable = false
    try {
      await client.query(beginAlone)
      if (!this.#hasTables) await client.query(tables)
      const result = await work(client)
      await client.query('commit')
      isUsable = true
      this.#hasTables = true
      return result
    } finally {
      // A connection that is closed takes its transaction back by itself.
      client.release(!isUsable)
    }
  }
}
