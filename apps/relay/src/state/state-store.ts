import Database from 'better-sqlite3'
import { StoredIdentities, type IdentityValues } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { digestToCid, type Digest } from '@tributary/repo-verify'
import type { StoredSource } from '../sources/source.ts'
import { AccountTable } from './account-table.ts'
import { DatabaseWriter } from './database-writer.ts'
import { prepare } from './schema.ts'
import type { StateWrite } from './state-write.ts'
import { storedAccounts } from './stored-accounts.ts'

interface SourceRow {
  id: number
  host: string
  url: string
  cursor: number
  epoch: number
  epoch_at_ms: number
  ahead: string
  newest_logged: string
  looks: string
  lost_at_ms: number
  revision: number
  walk_from: string
  caught_up_at_ms: number
}

/** An account of `listRepos`, with its newest commit. */
export interface ListedRepo {
  did: Did
  head: string
  rev: string
  active: true
}

/** Some accounts in DID order. With a cursor there may be more, even when there are fewer here than were asked for. */
export interface AccountPage<T> {
  repos: T[]
  cursor?: Did
}

interface PageBounds {
  collection?: string
  afterDid: string
  limit: number
}

/** Rows that one page looks at, 10 ms at most: accounts that are not listed cost as much as those that are. */
const scannedMax = 5000

const isActive = `upstream_status = 'active' AND local_status IS NULL AND throttled_at_ms = 0`

/** Where the state is stored. */
export interface StateDatabase {
  /** Has the newest schema. */
  db: Database.Database
  /**
   * Resolves when the transaction is done, with whether a power cut leaves it and all before it. One write at a time.
   * @throws what a storage fault throws.
   */
  write: (rows: StateWrite) => Promise<boolean>
  close?: () => Promise<void>
  nowMs?: () => number
}

/** Opens or creates the database of a file. @param writer writes it. */
export function openStateFile(path: string, writer: DatabaseWriter): StateDatabase {
  const db = new Database(path)
  prepare(db)
  return { db, write: async (rows) => await writer.writeState(path, rows) }
}

function openAlone(path: string): StateDatabase {
  const writer = new DatabaseWriter()
  return { ...openStateFile(path, writer), close: async () => await writer.close() }
}

/** Reads the state at start, and hands changes to what writes them. */
export class StateStore {
  readonly #database: StateDatabase
  readonly #pageStatements = new Map<string, Database.Statement<[Partial<PageBounds>]>>()
  /** Up to where the stored state accounted for the log at the start. */
  readonly appliedSeq: number
  readonly accounts: AccountTable
  readonly sources: StoredSource[]
  readonly identities: StoredIdentities
  /** A killed process may have left more than is synced, so the first look writes, also when nothing has changed. */
  #syncedSeq = 0
  #isSynced = false
  readonly #writtenListeners: (() => void)[] = []
  readonly #waiters: (() => void)[] = []
  #isWriting = false
  #failed: (error: Error) => void = () => {}

  /** All accounts are held in memory, 150 bytes each. @param place a path, or a database that is open. */
  constructor(place: string | StateDatabase) {
    const database = typeof place === 'string' ? openAlone(place) : place
    const { db, nowMs } = database
    this.appliedSeq = Number(db.prepare('SELECT seq FROM applied').pluck().get())
    this.accounts = new AccountTable(storedAccounts(db), nowMs)
    this.sources = readSources(db)
    const identityText = db.prepare<[string], string>('SELECT document FROM identity WHERE did = ?').pluck()
    // A look into the database for each new account would cost a sixth of all it takes.
    this.identities = new StoredIdentities((did) => (this.#isNew(did) ? undefined : identityText.get(did)))
    this.#database = database
  }

  /** The database refused a write: the service stops, for its state can no longer follow the log. */
  onFailure(listener: (error: Error) => void): void {
    this.#failed = listener
  }

  /** The stored state accounts for the log up to here, also after a power cut. */
  get syncedSeq(): number {
    return this.#syncedSeq
  }

  /** A power cut would take back nothing of what is stored. The next write makes it so when it is due. */
  get isSynced(): boolean {
    return this.#isSynced
  }

  /**
   * Identities that have to be written. Those of new accounts are dropped, because hosts may name as many accounts as they
   * like. Some of these are about to be known: their documents are read again after a start.
   */
  takeIdentities(): IdentityValues[] {
    return this.identities
      .take()
      .map(([did, text, fetchedAtMs]) => [did, this.#isNew(did) ? null : text, fetchedAtMs])
  }

  /** No source has spoken for the account. */
  #isNew(did: Did): boolean {
    return (this.accounts.get(did)?.sourceId ?? 0) === 0
  }

  /** Called after every write. */
  onWritten(listener: () => void): void {
    this.#writtenListeners.push(listener)
  }

  /** One write is under way at a time. */
  get isWriting(): boolean {
    return this.#isWriting
  }

  /** Resolves when no write is under way. */
  async whenWritten(): Promise<void> {
    while (this.#isWriting) await new Promise<void>((resolve) => this.#waiters.push(resolve))
  }

  /** Writes in one transaction. Not while `isWriting`. */
  write(rows: StateWrite): void {
    if (this.#isWriting) throw new Error('a write of the state is under way')
    this.#isWriting = true
    this.#database.write(rows).then(
      (isSynced) => this.#onWritten(rows.appliedSeq, isSynced),
      (error: unknown) => this.#failed(error instanceof Error ? error : new Error(String(error))),
    )
  }

  /** Active accounts with a known state, after a DID in DID order. Up to two seconds behind the log. */
  listRepos(afterDid: string, limit: number): AccountPage<ListedRepo> {
    const page = this.#page<{ did: Did; commit_digest: Buffer; rev: string }>(
      'SELECT * FROM account WHERE did > :afterDid',
      `did, commit_digest, rev FROM scanned WHERE ${isActive} AND rev IS NOT NULL AND commit_digest IS NOT NULL`,
      { afterDid, limit },
    )
    const repos = page.repos.map(({ did, commit_digest, rev }) => {
      const head = digestToCid(commit_digest.toString('latin1') as Digest) // as stored
      return { did, head, rev, active: true as const }
    })
    return { ...page, repos }
  }

  /** Active accounts with records of a collection, after a DID in DID order. As far behind the log as `listRepos`. */
  listReposByCollection(collection: string, afterDid: string, limit: number): AccountPage<{ did: Did }> {
    return this.#page<{ did: Did }>(
      'SELECT did FROM repo_collection WHERE collection = :collection AND did > :afterDid',
      `did FROM scanned CROSS JOIN account USING (did) WHERE ${isActive}`,
      { collection, afterDid, limit },
    )
  }

  /** The accounts in question by DID, `scannedMax` of them, and what is shown of those that are listed. */
  #page<R extends { did: Did }>(scanned: string, shown: string, bound: PageBounds): AccountPage<R> {
    const select = `WITH scanned AS (${scanned} ORDER BY did LIMIT ${scannedMax}) SELECT ${shown} ORDER BY did LIMIT :limit`
    const rows = this.#prepared<R>(select).all({ ...bound, limit: bound.limit + 1 })
    const repos = rows.slice(0, bound.limit)
    const { limit: _, ...where } = bound
    const lastScanned = `SELECT did FROM (${scanned}) ORDER BY did LIMIT 1 OFFSET ${scannedMax - 1}`
    const cursor =
      rows.length > bound.limit
        ? repos.at(-1)?.did
        : this.#prepared<{ did: Did }>(lastScanned).get(where)?.did
    return cursor === undefined ? { repos } : { repos, cursor }
  }

  /** A statement of one of the few texts that pages have. */
  #prepared<R>(sql: string): Database.Statement<[Partial<PageBounds>], R> {
    let statement = this.#pageStatements.get(sql)
    if (!statement) this.#pageStatements.set(sql, (statement = this.#database.db.prepare(sql)))
    return statement as Database.Statement<[Partial<PageBounds>], R> // rows are what its text says
  }

  async close(): Promise<void> {
    await this.whenWritten()
    await this.#database.close?.()
    this.#database.db.close()
  }

  #onWritten(seq: number, isSynced: boolean): void {
    this.#isWriting = false
    this.#isSynced = isSynced
    if (isSynced) this.#syncedSeq = seq
    for (const listener of this.#writtenListeners) listener()
    for (const resolve of this.#waiters.splice(0)) resolve()
  }
}

function readSources(db: Database.Database): StoredSource[] {
  return db
    .prepare<[], SourceRow>('SELECT * FROM source ORDER BY id')
    .all()
    .map(({ epoch_at_ms, ahead, newest_logged, looks, lost_at_ms, walk_from, caught_up_at_ms, ...same }) => ({
      ...same,
      epochAtMs: epoch_at_ms,
      ahead: JSON.parse(ahead) as number[], // written by the state thread
      newestLogged: JSON.parse(newest_logged) as [Did, number][], // written by the state thread
      looks: JSON.parse(looks) as [Did, boolean][], // written by the state thread
      lostAtMs: lost_at_ms,
      walkFrom: walk_from,
      caughtUpAtMs: caught_up_at_ms,
    }))
}
