/**
 * The tokens that were spent (feed.md 3.3), in a SQLite file of its own, so that a restart accepts none twice.
 *
 * What must hold: a token is on disk before its request is served; checking and writing is one transaction; the clock
 * never goes back while the process runs, and over a restart not behind the end of an entry that was dropped, because
 * that entry can no longer speak for itself. A clock that was wrong once is forgotten with the restart.
 */
import Sqlite from 'better-sqlite3'
import type { Did } from '@tributary/protocol'

/** How many live entries there may be. At a bound the next token is refused. */
export interface TokenBounds {
  /** Tokens of one issuer. */
  readonly perIssuer: number
  /** Tokens that calls of one network have spent: anybody can make any number of issuers. */
  readonly perNetwork: number
  readonly inAll: number
}

/** Live entries that count against the next one. */
export interface TokenCounts {
  readonly ofIssuer: number
  readonly ofNetwork: number
  readonly ofAll: number
}

/** A network may have another token while it has fewer than are free, so that one network alone leaves half of all. */
export function isFull(
  { ofIssuer, ofNetwork, ofAll }: TokenCounts,
  { perIssuer, perNetwork, inAll }: TokenBounds,
): boolean {
  return ofIssuer >= perIssuer || ofNetwork >= Math.min(perNetwork, inAll - ofAll)
}

export interface TokenUse {
  readonly issuer: Did
  /** Where the call came from. */
  readonly network: string
  readonly nonce: string
  /** End of the token in whole seconds; the entry lives to the end of that second. */
  readonly expiresAt: number
}

/** `spent` now, or refused: `used` before, `expired` by the clock of this store, or the store is `full`. */
export type TokenVerdict = 'spent' | 'used' | 'expired' | 'full'

/** A store of spent tokens. Storage errors are thrown. */
export interface SpentTokens {
  /** Marks a verified token as used. Of two equal calls exactly one gets `spent`. */
  spend(use: TokenUse): TokenVerdict | Promise<TokenVerdict>
}

const tables = `
  create table if not exists usedTokens (
    issuer text not null, nonce text not null, goneAtMs integer not null, network text not null default '',
    primary key (issuer, nonce)
  ) without rowid;
  create index if not exists usedTokensByEnd on usedTokens (goneAtMs);
  create table if not exists dropped (id integer primary key check (id = 1), throughMs integer not null);
  insert or ignore into dropped values (1, 0);`

const indexOfNetworks = 'create index if not exists usedTokensByNetwork on usedTokens (network)'

export class UsedTokens implements SpentTokens, Disposable {
  readonly #db: Sqlite.Database
  readonly #now: () => number
  readonly #bounds: TokenBounds
  readonly #spend: Sqlite.Transaction<(use: TokenUse) => TokenVerdict>
  #latestMs = 0

  /** `path` is created if need be, and not its directory; `now` is a clock in milliseconds since 1970. Storage errors are thrown. */
  constructor(path: string, now: () => number, bounds: TokenBounds) {
    this.#now = now
    this.#bounds = bounds
    this.#db = new Sqlite(path)
    this.#db.pragma('journal_mode = WAL')
    // A machine that restarts within the life of a token must still know it.
    this.#db.pragma('synchronous = FULL')
    this.#db.exec(tables)
    this.#db.transaction(() => addNetworks(this.#db)).immediate()
    this.#spend = this.#prepareSpend()
  }

  /** Marks a verified token as used. Of two equal calls, also of two processes, exactly one gets `spent`. */
  spend(use: TokenUse): TokenVerdict {
    return this.#spend.immediate(use)
  }

  [Symbol.dispose](): void {
    this.#db.close()
  }

  #prepareSpend(): Sqlite.Transaction<(use: TokenUse) => TokenVerdict> {
    const droppedThrough = this.#db.prepare<[], number>('select throughMs from dropped').pluck()
    const noteDropped = this.#db.prepare<[number]>(
      'update dropped set throughMs = max(throughMs, (select coalesce(max(goneAtMs), 0) from usedTokens where goneAtMs <= ?))',
    )
    // A token that has ended keeps its nonce from nobody, also before it is dropped.
    const find = this.#db.prepare<[string, string, number]>(
      'select 1 from usedTokens where issuer = ? and nonce = ? and goneAtMs > ?',
    )
    const drop = this.#db.prepare<[number]>('delete from usedTokens where goneAtMs <= ?')
    const ofIssuer = this.#db
      .prepare<[string], number>('select count(*) from usedTokens where issuer = ?')
      .pluck()
    const ofNetwork = this.#db
      .prepare<[string], number>('select count(*) from usedTokens where network = ?')
      .pluck()
    const ofAll = this.#db.prepare<[], number>('select count(*) from usedTokens').pluck()
    const insert = this.#db.prepare<[string, string, number, string]>(
      'insert into usedTokens (issuer, nonce, goneAtMs, network) values (?, ?, ?, ?)',
    )
    const countsOf = ({ issuer, network }: TokenUse): TokenCounts => ({
      ofIssuer: ofIssuer.get(issuer) ?? 0,
      ofNetwork: ofNetwork.get(network) ?? 0,
      ofAll: ofAll.get() ?? 0,
    })

    return this.#db.transaction((use: TokenUse): TokenVerdict => {
      const { issuer, nonce, expiresAt, network } = use
      this.#latestMs = Math.max(this.#now(), this.#latestMs, droppedThrough.get() ?? 0)
      const goneAtMs = (expiresAt + 1) * 1000
      if (goneAtMs <= this.#latestMs) return 'expired'
      if (find.get(issuer, nonce, this.#latestMs)) return 'used'
      noteDropped.run(this.#latestMs)
      drop.run(this.#latestMs)
      if (isFull(countsOf(use), this.#bounds)) return 'full'
      insert.run(issuer, nonce, goneAtMs, network)
      return 'spent'
    })
  }
}

/** Files of earlier versions do not tell networks apart. */
function addNetworks(db: Sqlite.Database): void {
  const columns = db.prepare<[], string>("select name from pragma_table_info('usedTokens')").pluck().all()
  if (!columns.includes('network'))
    db.exec("alter table usedTokens add column network text not null default ''")
  db.exec(indexOfNetworks)
}
