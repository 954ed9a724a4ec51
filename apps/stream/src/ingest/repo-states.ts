import { RecentMap, StoredIdentities } from '@tributary/identity'
import type { Digest } from '@tributary/repo-verify'
import type { Covered } from '../archive/archive.ts'
import { type CommitAndSync, commitAndSync, type StateDatabase } from '../state-database.ts'
import { ArchivedRecords } from './archived-records.ts'

/** One event and how many of its rows, in order, are archived. @see eventName */
export interface WrittenRows {
  readonly event: string
  readonly rows: number
  /**
   * The records that those rows of a commit are of, because other collections may be watched when it comes again.
   * Undefined for other events, and when an older version wrote it.
   */
  readonly paths?: readonly string[]
}

/** What is known of one repository: enough to tell a repeat from news, and a break in the chain from its continuation. */
export interface RepoState {
  /** Revision of the newest commit or sync; empty when there was none yet. */
  rev: string
  /** Root of the tree of records at that revision. */
  data: Digest | undefined
  /** Revision of the newest sync. */
  syncRev: string
  /** The newest identity and account events, and in which numbering of the relay they came; as `EventFold` writes it. */
  identitySeen: string
  accountSeen: string
  /** A commit did not continue what we hold, or a sync replaced it: records may be missing. */
  needsRefetch: boolean
  /**
   * Revision of the watched collections for which the archive has everything that the repository held, or has since. 0:
   * the repository was there before we saw it, and was never read as a whole.
   */
  completeRevision: number
  /** Its newest account event says that nothing which it wrote may be shown. */
  isHidden: boolean
  /** It is hidden because it was taken down or deleted, and it is noted that its records leave the archive. */
  isTakenDown: boolean
  /**
   * Revision of a repository of which rows are archived, perhaps not all: a refill that has begun and not ended. Events up
   * to it give no rows, because they would come after what replaced them. Empty when there is none.
   */
  backfillRev: string
  /** What is archived already of events that this state does not account for. */
  written: readonly WrittenRows[]
}

/** How far the relay has been read. */
export interface UpstreamPosition {
  relayUrl: string
  /** Counts the numberings of the relay: another relay, or one that began again, has another one. */
  epoch: number
  epochBeganMs: number
  /** Every event up to here is done, and its rows are durable. */
  cursor: number
}

interface RepoColumns {
  rev: string
  data: Buffer | null
  sync_rev: string
  identity_seen: string
  account_seen: string
  needs_refetch: number
  written: string
  complete_revision: number
  is_hidden: number
  backfill_rev: string
  is_taken_down: number
}

const cachedMax = 50_000
/** Marked repositories that are counted: some two milliseconds of work, which anybody may ask for. */
export const markedMax = 20_000
/** An identity is good for a day. */
const identityMs = 86_400_000
/**
 * Old identities that a save deletes, beside as many as it writes: a few milliseconds. To delete 100,000 at once would take
 * two seconds.
 */
const sweptAtOnce = 100

export const unknownRepo: Readonly<RepoState> = {
  rev: '',
  data: undefined,
  syncRev: '',
  identitySeen: '',
  accountSeen: '',
  needsRefetch: false,
  completeRevision: 0,
  isHidden: false,
  isTakenDown: false,
  backfillRev: '',
  written: [],
}

/** The newest revision that rows in the archive are of. */
export function newestRevOf({ rev, backfillRev }: Readonly<RepoState>): string {
  return backfillRev > rev ? backfillRev : rev
}

/**
 * States of repositories, and identities of their accounts, with their changes held in memory until `save`. A save is
 * one transaction that also carries the position at the relay and the seq of the newest row that the states account for.
 */
export class RepoStates {
  readonly #database: StateDatabase
  readonly #commit: CommitAndSync
  readonly #select
  readonly #upsert
  readonly #savePosition
  readonly #putIdentity
  readonly #dropIdentity
  readonly #dropOldIdentities
  /** So that a start while the directory is away can check what comes. */
  readonly identities: StoredIdentities
  readonly archived: ArchivedRecords
  readonly #marked
  readonly #markedCount
  /** Further changes for the next save, and what is done once it is through. */
  #alongside: { change: () => void; onSaved: () => void }[] = []
  readonly #clean = new RecentMap<string, Readonly<RepoState>>(cachedMax)
  #dirty = new Map<string, Readonly<RepoState>>()
  /** The changes that a save is writing. */
  #saving = new Map<string, Readonly<RepoState>>()
  #position: UpstreamPosition | undefined
  #covered: Covered
  #marks = 0
  /** `#marks` at the last mark of each repository. What is forgotten was marked before the newest `cachedMax / 2`. */
  readonly #markedAt = new RecentMap<string, number>(cachedMax)

  constructor(database: StateDatabase, commit: CommitAndSync = commitAndSync) {
    this.#database = database
    this.#commit = commit
    this.#select = database.prepare<[string], RepoColumns>(
      `SELECT rev, data, sync_rev, identity_seen, account_seen, needs_refetch, written, complete_revision, is_hidden,
         backfill_rev, is_taken_down
       FROM repos WHERE did = ?`,
    )
    this.#upsert = database.prepare(
      'INSERT OR REPLACE INTO repos VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    )
    this.#savePosition = database.prepare('INSERT OR REPLACE INTO upstream VALUES (1, ?, ?, ?, ?, ?, ?)')
    this.#putIdentity = database.prepare('INSERT OR REPLACE INTO identities VALUES (?, ?, ?)')
    this.#dropIdentity = database.prepare('DELETE FROM identities WHERE did = ?')
    this.#dropOldIdentities = database.prepare(
      `DELETE FROM identities WHERE did IN
         (SELECT did FROM identities WHERE fetched_at_ms < ? ORDER BY fetched_at_ms LIMIT ?)`,
    )
    const document = database
      .prepare<[string], string>('SELECT document FROM identities WHERE did = ?')
      .pluck()
    this.identities = new StoredIdentities((did) => document.get(did))
    this.archived = new ArchivedRecords(database)
    this.#markedCount = database
      .prepare<[number], number>(
        `SELECT count(*) FROM
           (SELECT 1 FROM repos INDEXED BY repos_to_read WHERE needs_refetch = 1 AND is_hidden = 0 LIMIT ?)`,
      )
      .pluck()
    this.#marked = database
      .prepare<[string, number], string>(
        'SELECT did FROM repos WHERE needs_refetch = 1 AND did > ? ORDER BY did LIMIT ?',
      )
      .pluck()
    const saved = database
      .prepare<
        [],
        {
          relay_url: string
          epoch: number
          cursor: number
          epoch_began_ms: number
          applied_seq: number
          block_seq: number
        }
      >('SELECT * FROM upstream')
      .get()
    this.#position = saved && {
      relayUrl: saved.relay_url,
      epoch: saved.epoch,
      epochBeganMs: saved.epoch_began_ms,
      cursor: saved.cursor,
    }
    this.#covered = { appliedSeq: saved?.applied_seq ?? 0, blockSeq: saved?.block_seq ?? 0 }
  }

  /** The position as of the last save; undefined in a new directory. */
  get position(): UpstreamPosition | undefined {
    return this.#position
  }

  /** What the saved states say of rows. */
  get covered(): Covered {
    return this.#covered
  }

  /** Changed states that no save has taken yet. */
  get dirtyCount(): number {
    return this.#dirty.size + this.archived.changeCount + this.#alongside.length
  }

  get(did: string): Readonly<RepoState> | undefined {
    return this.#dirty.get(did) ?? this.#saving.get(did) ?? this.#clean.get(did) ?? this.#load(did)
  }

  set(did: string, state: Readonly<RepoState>): void {
    this.#dirty.set(did, state)
  }

  /** How often a repository was marked since the start. */
  get marks(): number {
    return this.#marks
  }

  /** Records of this account may be missing: its repository is to be read. */
  mark(did: string): void {
    this.set(did, { ...(this.get(did) ?? unknownRepo), needsRefetch: true })
    this.#markedAt.set(did, ++this.#marks)
  }

  /** Whether a repository was marked after so many marks. It may seem so when there were more than 25,000 since. */
  isMarkedSince(did: string, marks: number): boolean {
    return (this.#markedAt.get(did) ?? this.#marks - cachedMax / 2) > marks
  }

  /**
   * Repositories whose mark was saved, in the order of their DIDs. Some may have lost it since.
   * @param after the last DID of the page before.
   */
  marked(after: string, limit: number): string[] {
    return this.#marked.all(after, limit)
  }

  /** Accounts that are hidden, as it was saved. */
  hidden(): string[] {
    return this.#database.prepare<[], string>('SELECT did FROM repos WHERE is_hidden = 1').pluck().all()
  }

  /**
   * How many repositories have a mark that was saved, up to `markedMax`, without those of hidden accounts: nobody has them,
   * perhaps for ever.
   */
  markedCount(): number {
    return this.#markedCount.get(markedMax) ?? 0
  }

  /**
   * Makes a change of the database together with the states as they are now: neither is stored without the other.
   * @param change is called within the transaction of the next save.
   */
  alongside(change: () => void, onSaved: () => void = () => {}): void {
    this.#alongside.push({ change, onSaved })
  }

  /**
   * Writes every change made so far, once the rows behind them are durable.
   * @param whenDurable resolves when rows up to `appliedSeq` are durable. One save at a time.
   */
  async save(position: UpstreamPosition, covered: Covered, whenDurable: Promise<void>): Promise<void> {
    this.#saving = this.#dirty
    this.#dirty = new Map()
    const identities = this.identities.take()
    this.archived.take()
    const alongside = this.#alongside
    this.#alongside = []
    await whenDurable
    await this.#commit(this.#database, () => {
      for (const [did, state] of this.#saving) {
        const data = state.data === undefined ? null : Buffer.from(state.data, 'latin1')
        const { rev, syncRev, identitySeen, accountSeen, completeRevision, backfillRev } = state
        const [mark, hidden, written] = [state.needsRefetch, state.isHidden, JSON.stringify(state.written)]
        const seen = [syncRev, identitySeen, accountSeen] as const
        const whole = [completeRevision, Number(hidden), backfillRev] as const
        const down = Number(state.isTakenDown)
        this.#upsert.run(did, rev, data, ...seen, Number(mark), written, ...whole, down)
      }
      this.archived.write()
      for (const { change } of alongside) change()
      for (const [did, text, fetchedAtMs] of identities) {
        if (text === null) this.#dropIdentity.run(did)
        else this.#putIdentity.run(did, text, fetchedAtMs)
      }
      this.#dropOldIdentities.run(Date.now() - identityMs, sweptAtOnce + identities.length)
      const { relayUrl, epoch, cursor, epochBeganMs } = position
      this.#savePosition.run(relayUrl, epoch, cursor, epochBeganMs, covered.appliedSeq, covered.blockSeq)
    })
    for (const [did, state] of this.#saving) this.#clean.set(did, state)
    this.#saving = new Map()
    this.archived.written()
    this.#position = position
    this.#covered = covered
    for (const { onSaved } of alongside) onSaved()
  }

  #load(did: string): Readonly<RepoState> | undefined {
    const columns = this.#select.get(did)
    if (!columns) return undefined
    const state: RepoState = {
      rev: columns.rev,
      data: columns.data === null ? undefined : (columns.data.toString('latin1') as Digest), // written from one
      syncRev: columns.sync_rev,
      identitySeen: columns.identity_seen,
      accountSeen: columns.account_seen,
      needsRefetch: columns.needs_refetch === 1,
      completeRevision: columns.complete_revision,
      isHidden: columns.is_hidden === 1,
      isTakenDown: columns.is_taken_down === 1,
      backfillRev: columns.backfill_rev,
      written: JSON.parse(columns.written) as WrittenRows[], // written by `save`
    }
    this.#clean.set(did, state)
    return state
  }
}
