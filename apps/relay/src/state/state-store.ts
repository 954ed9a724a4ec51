import { Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import type { Did, Tid } from '@tributary/protocol'
import { digestToCid, type Digest } from '@tributary/repo-verify'
import type { StoredSource } from '../sources/source.ts'
import { AccountTable } from './account-table.ts'
import { newAccount, type Account, type LocalStatus } from './account.ts'
import { prepare } from './schema.ts'
import { StoredIdentities, type IdentityValues } from './stored-identities.ts'

/** What one record of the log does to an account. */
export interface AccountChange {
  /** Seq of the record. */
  seq: number
  did: Did
  sourceId: number
  upstreamStatus: string
  localStatus: LocalStatus | undefined
  throttledAtMs: number
  rev: Tid | undefined
  commit: Digest | undefined
  data: Digest | undefined
  isDesynchronized: boolean
  isIncomplete: boolean
  rare: RareValues | undefined
}

/** What nearly no account has. */
type RareValues = Partial<Pick<Account, 'activeNote' | 'breaks'>>

export interface StateWrite {
  appliedSeq: number
  accounts: AccountChange[]
  /** Collections that accounts have records of, as far as they were not known. */
  collections: { did: Did; collection: string }[]
  sources: StoredSource[]
  identities: IdentityValues[]
}

/** A write as the thread gets it: rows as they are stored, since names of fields would take longer than their values. */
export interface StateRows {
  appliedSeq: number
  accounts: AccountValues[]
  collections: [collection: string, did: Did][]
  sources: StoredSource[]
  identities: IdentityValues[]
}

/** The columns of an account in their order; digests as text, one character each byte. */
export type AccountValues = [
  did: Did,
  sourceId: number,
  upstreamStatus: string,
  rev: string | null,
  commit: string | null,
  data: string | null,
  isDesynchronized: number,
  localStatus: string | null,
  throttledAtMs: number,
  rare: string | null,
]

interface AccountRow {
  did: string
  source_id: number
  upstream_status: string
  rev: string | null
  commit_digest: Buffer | null
  data_digest: Buffer | null
  /** 1: events of the account did not continue what was stored. 2: some were left out here. */
  is_desynchronized: number
  local_status: string | null
  throttled_at_ms: number
  /** JSON of `RareValues`. */
  rare: string | null
}

interface SourceRow {
  id: number
  host: string
  url: string
  cursor: number
  epoch: number
  epoch_at_ms: number
  ahead: string
}

/** Some accounts in DID order. With a cursor there may be more, even when there are fewer here than were asked for. */
interface AccountPage<T> {
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

/** Writes rows, one write after the other. */
export interface RowWriter {
  write(rows: StateRows): void
  close(): Promise<unknown>
}

/** What a writer tells. */
export interface WriterEvents {
  onWritten: () => void
  onFailure: (error: Error) => void
}

/** Where the state is stored. */
export interface StateDatabase {
  /** Has the newest schema. */
  db: Database.Database
  startWriter: (events: WriterEvents) => RowWriter
  nowMs?: () => number
}

/** Opens or creates the database of a file, which a thread writes. */
function openFile(path: string): StateDatabase {
  const db = new Database(path)
  prepare(db)
  const startWriter = ({ onWritten, onFailure }: WriterEvents): RowWriter => {
    const worker = new Worker(new URL('./state-thread.ts', import.meta.url), { workerData: { path } })
    worker.on('message', onWritten)
    worker.on('error', (error) => onFailure(error instanceof Error ? error : new Error(String(error))))
    return { write: (rows) => worker.postMessage(rows), close: async () => await worker.terminate() }
  }
  return { db, startWriter }
}

/** Reads the state at start, and hands changes to what writes them. */
export class StateStore {
  readonly #writer: RowWriter
  readonly #db: Database.Database
  /** Up to where the stored state accounted for the log at the start. */
  readonly appliedSeq: number
  readonly accounts: AccountTable
  readonly sources: StoredSource[]
  readonly identities: StoredIdentities
  #writtenSeq: number
  #writingSeq = 0
  readonly #writtenListeners: (() => void)[] = []
  readonly #waiters: (() => void)[] = []
  #isWriting = false
  #failed: (error: Error) => void = () => {}

  /** All accounts are held in memory, some 400 bytes each. @param place a path, or a database that is open. */
  constructor(place: string | StateDatabase) {
    const { db, startWriter, nowMs } = typeof place === 'string' ? openFile(place) : place
    this.appliedSeq = Number(db.prepare('SELECT seq FROM applied').pluck().get())
    this.#writtenSeq = this.appliedSeq
    this.accounts = new AccountTable(readAccounts(db), nowMs)
    this.sources = readSources(db)
    const identityText = db.prepare<[string], string>('SELECT document FROM identity WHERE did = ?').pluck()
    this.identities = new StoredIdentities((did) => identityText.get(did))
    this.#db = db
    this.#writer = startWriter({
      onWritten: () => this.#onWritten(),
      onFailure: (error) => this.#failed(error),
    })
  }

  /** The database refused a write: the service stops, for its state can no longer follow the log. */
  onFailure(listener: (error: Error) => void): void {
    this.#failed = listener
  }

  /** The stored state accounts for the log up to here. */
  get writtenSeq(): number {
    return this.#writtenSeq
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
  write(changes: StateWrite): void {
    if (this.#isWriting) throw new Error('a write of the state is under way')
    this.#isWriting = true
    const { appliedSeq, accounts, collections, sources, identities } = changes
    this.#writingSeq = appliedSeq
    const rows: StateRows = {
      appliedSeq,
      accounts: accounts.map(valuesOf),
      collections: collections.map(({ collection, did }) => [collection, did]),
      sources,
      identities,
    }
    this.#writer.write(rows)
  }

  /** Active accounts with a known state, after a DID in DID order. Up to a quarter of a second behind the log. */
  listRepos(afterDid: string, limit: number): AccountPage<{ did: Did; head: string; rev: string }> {
    const page = this.#page<{ did: Did; commit_digest: Buffer; rev: string }>(
      'SELECT * FROM account WHERE did > :afterDid',
      `did, commit_digest, rev FROM scanned WHERE ${isActive} AND rev IS NOT NULL AND commit_digest IS NOT NULL`,
      { afterDid, limit },
    )
    const repos = page.repos.map(({ did, commit_digest, rev }) => {
      return { did, head: digestToCid(commit_digest.toString('latin1') as Digest), rev } // as stored
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
    const rows = this.#db.prepare<[PageBounds], R>(select).all({ ...bound, limit: bound.limit + 1 })
    const repos = rows.slice(0, bound.limit)
    const { limit: _, ...where } = bound
    const lastScanned = `SELECT did FROM (${scanned}) ORDER BY did LIMIT 1 OFFSET ${scannedMax - 1}`
    const cursor =
      rows.length > bound.limit
        ? repos.at(-1)?.did
        : this.#db.prepare<[Omit<PageBounds, 'limit'>], Did>(lastScanned).pluck().get(where)
    return cursor === undefined ? { repos } : { repos, cursor }
  }

  async close(): Promise<void> {
    await this.whenWritten()
    await this.#writer.close()
    this.#db.close()
  }

  #onWritten(): void {
    this.#isWriting = false
    this.#writtenSeq = this.#writingSeq
    for (const listener of this.#writtenListeners) listener()
    for (const resolve of this.#waiters.splice(0)) resolve()
  }
}

function valuesOf(account: AccountChange): AccountValues {
  const { did, sourceId, upstreamStatus, localStatus, throttledAtMs, rev, commit, data } = account
  const flags = account.isIncomplete ? 2 : account.isDesynchronized ? 1 : 0
  return [
    did,
    sourceId,
    upstreamStatus,
    rev ?? null,
    commit ?? null,
    data ?? null,
    flags,
    localStatus ?? null,
    throttledAtMs,
    account.rare ? JSON.stringify(account.rare) : null,
  ]
}

function readAccounts(db: Database.Database): Map<string, Account> {
  const accounts = new Map<string, Account>()
  for (const row of db.prepare<[], AccountRow>('SELECT * FROM account').iterate()) {
    const account = newAccount(row.did as Did) // checked before it was stored
    account.sourceId = row.source_id
    account.upstreamStatus = row.upstream_status
    account.rev = (row.rev ?? undefined) as Tid | undefined // checked before it was stored
    account.commit = row.commit_digest?.toString('latin1') as Digest | undefined // 32 bytes, one character each
    account.data = row.data_digest?.toString('latin1') as Digest | undefined // 32 bytes, one character each
    account.isDesynchronized = row.is_desynchronized !== 0
    account.isIncomplete = row.is_desynchronized === 2
    account.localStatus = (row.local_status ?? undefined) as LocalStatus | undefined // as it was stored
    account.throttledAtMs = row.throttled_at_ms
    if (row.rare !== null) Object.assign(account, JSON.parse(row.rare) as RareValues) // as it was stored
    accounts.set(row.did, account)
  }
  return accounts
}

function readSources(db: Database.Database): StoredSource[] {
  return db
    .prepare<[], SourceRow>('SELECT * FROM source ORDER BY id')
    .all()
    .map(({ id, host, url, cursor, epoch, epoch_at_ms, ahead }) => ({
      id,
      host,
      url,
      cursor,
      epoch,
      epochAtMs: epoch_at_ms,
      ahead: JSON.parse(ahead) as number[], // written by the state thread
    }))
}
