import { setImmediate } from 'node:timers/promises'
import type { StateDatabase } from '../state-database.ts'

export type JobState = 'active' | 'paused' | 'cancelled' | 'done'
/** Why a job began. `window-missed`: the relay may not have had all events since the last one that was seen. */
export type JobCause = 'host-added' | 'collection-added' | 'window-missed' | 'operator'

/** The repositories of one PDS, to be made whole. */
export interface Job {
  id: number
  host: string
  /** The collection that it was begun for; empty for everything that is watched. */
  collection: string
  cause: JobCause
  state: JobState
  /** Revision of the watched collections when it was begun. */
  revision: number
  /** Where the listing of the host's repositories goes on. Empty at its start. */
  cursor: string
  isListed: boolean
  /** Repositories that the host has listed. */
  listed: number
  createdAtMs: number
  /** 0 while it has not ended. */
  endedAtMs: number
  /** Newest seq when it was done. Later events of the host came live. */
  throughSeq: number
}

/** `waiting`: events of the account are expected; when its time comes the repository is taken in their place. */
export type RepoStatus = 'pending' | 'waiting' | 'failed' | 'unavailable'

/** A job as it is asked for. Without a host: one for each that the relay reads. */
export type JobWish = Pick<Job, 'collection' | 'cause' | 'revision'> & { host?: string }

interface NewJobs extends Required<JobWish> {
  nowMs: number
}

/** One repository of a job that is not whole. */
export interface JobRepo {
  did: string
  state: RepoStatus
  /** The newest revision that its host listed. */
  rev: string
  /** How often it was tried in vain. */
  attempts: number
  nextAtMs: number
  detail: string
}

/** A revision of a repository that a host has listed. */
export interface ListedRev {
  host: string
  rev: string
}

export interface RepoCounts {
  pending: number
  failed: number
  unavailable: number
}

/**
 * Repositories of one state that are counted of a job, and of all states and jobs in one turn of the event loop: some five
 * milliseconds. A PDS may list millions that nobody has, and counting these takes half a second.
 */
export const countedMax = 20_000
/** Repositories that take as long to count as a job without any. */
const repoCostOfJob = 100

/** Repositories of a job that wait, above which no more are added. More than these are not counted. */
export const pendingMax = 1000

/** Repositories of a job that a retry looks at in one transaction: some ten milliseconds of work. */
const retriedAtOnce = 500

/** Repositories of jobs that are over that are deleted in one transaction: some ten milliseconds of work. */
const sweptAtOnce = 2000

/** A job that is active. */
export interface ActiveJob extends Job {
  /** A retry has not come to the last of its repositories yet. */
  isRetried: boolean
  /** How often it was begun again from the start of the listing. */
  begins: number
}

interface JobRow extends Omit<Job, 'isListed'> {
  isListed: number
}

/** Active jobs that are looked at in one turn of the event loop: two or three milliseconds. */
const jobsPerTurn = 100
const jobColumns = `id, host, collection, cause, state, revision, cursor, is_listed AS isListed, listed,
  created_at_ms AS createdAtMs, ended_at_ms AS endedAtMs, through_seq AS throughSeq`
const repoColumns = 'did, state, rev, attempts, next_at_ms AS nextAtMs, detail'

/**
 * Jobs, their repositories and the approved hosts, in the state database. Everything here is within the transaction of the
 * caller, or one of its own.
 */
export class BackfillStore {
  readonly #database: StateDatabase
  readonly #jobs
  readonly #activeJobs
  readonly #jobsOf
  readonly #job
  readonly #beginAgain
  readonly #deleteEnded
  readonly #insert
  readonly #noteListed
  readonly #idsOf
  readonly #due
  readonly #pending
  readonly #count
  readonly #putRepo
  readonly #deleteRepo
  readonly #retryAfter
  readonly #setRetryAfter
  readonly #isUnavailable
  readonly #unavailable
  readonly #forgetUnavailable
  readonly #deleteSome
  /** Jobs that are cancelled or gone, and may have repositories still. */
  readonly #leftovers = new Set<number>()

  constructor(database: StateDatabase) {
    this.#database = database
    this.#jobs = database.prepare<[], JobRow>(`SELECT ${jobColumns} FROM backfill_jobs ORDER BY id`)
    this.#activeJobs = database.prepare<[number], JobRow & { isRetried: number; begins: number }>(
      `SELECT ${jobColumns}, retry_after IS NOT NULL AS isRetried, begins FROM backfill_jobs
       WHERE state = 'active' AND id > ? ORDER BY id LIMIT ${jobsPerTurn}`,
    )
    this.#jobsOf = database.prepare<[string], JobRow>(
      `SELECT ${jobColumns} FROM backfill_jobs WHERE host = ? ORDER BY id`,
    )
    this.#job = database.prepare<[number], JobRow>(`SELECT ${jobColumns} FROM backfill_jobs WHERE id = ?`)
    const hosts = `SELECT @host AS host WHERE @host <> ''
      UNION ALL SELECT host FROM backfill_hosts WHERE is_approved = 1 AND @host = '' ORDER BY host`
    const ofHosts = `collection = @collection AND host IN (${hosts})`
    const isOpen = "state IN ('active', 'paused')"
    this.#beginAgain = database.prepare<[NewJobs]>(
      `UPDATE backfill_jobs SET cause = @cause, revision = @revision, cursor = '', is_listed = 0, listed = 0,
         begins = begins + 1
       WHERE ${ofHosts} AND ${isOpen}`,
    )
    this.#deleteEnded = database
      .prepare<[NewJobs], number>(`DELETE FROM backfill_jobs WHERE ${ofHosts} AND NOT ${isOpen} RETURNING id`)
      .pluck()
    this.#insert = database.prepare<[NewJobs]>(
      `INSERT INTO backfill_jobs (host, collection, cause, state, revision, cursor, is_listed, listed,
         created_at_ms, ended_at_ms, through_seq)
       SELECT host, @collection, @cause, 'active', @revision, '', 0, 0, @nowMs, 0, 0 FROM (${hosts}) AS wished
       WHERE NOT EXISTS (SELECT 1 FROM backfill_jobs WHERE host = wished.host AND collection = @collection)`,
    )
    this.#noteListed = database.prepare(
      `UPDATE backfill_jobs SET cursor = ?, is_listed = ?, listed = listed + ?
       WHERE id = ? AND begins = ? AND state = 'active'`,
    )
    this.#idsOf = database
      .prepare<[NewJobs], number>(`SELECT id FROM backfill_jobs WHERE ${ofHosts} ORDER BY id`)
      .pluck()
    this.#pending = database
      .prepare<[number], number>(
        `SELECT count(*) FROM
           (SELECT 1 FROM backfill_repos WHERE job_id = ? AND state IN ('pending', 'waiting') LIMIT ${pendingMax})`,
      )
      .pluck()
    // Without the name of the index all repositories of a job are looked at.
    const toRead = `SELECT ${repoColumns} FROM backfill_repos INDEXED BY backfill_repos_due
       WHERE job_id = @id AND state IN ('pending', 'waiting')`
    this.#due = database.prepare<[{ id: number; nowMs: number; lateMs: number; limit: number }], JobRepo>(
      `${toRead} AND next_at_ms <= @nowMs UNION ALL ${toRead} AND next_at_ms > @lateMs
       ORDER BY nextAtMs, did LIMIT @limit`,
    )
    this.#count = database
      .prepare<[number, RepoStatus, number], number>(
        'SELECT count(*) FROM (SELECT 1 FROM backfill_repos WHERE job_id = ? AND state = ? LIMIT ?)',
      )
      .pluck()
    // A reading that was begun before its host listed a newer revision stores what became of it afterwards.
    this.#putRepo = database.prepare(
      `INSERT INTO backfill_repos VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state,
         rev = max(rev, excluded.rev), attempts = excluded.attempts, next_at_ms = excluded.next_at_ms, detail = excluded.detail`,
    )
    this.#deleteRepo = database.prepare(
      'DELETE FROM backfill_repos WHERE job_id = ? AND did = ? AND rev <= ?',
    )
    this.#retryAfter = database
      .prepare<[number], string | null>(
        "SELECT retry_after FROM backfill_jobs WHERE id = ? AND state = 'active'",
      )
      .pluck()
    this.#setRetryAfter = database.prepare('UPDATE backfill_jobs SET retry_after = ? WHERE id = ?')
    this.#deleteSome = database.prepare(
      `DELETE FROM backfill_repos
       WHERE job_id = ? AND did IN (SELECT did FROM backfill_repos WHERE job_id = ? LIMIT ?)`,
    )
    this.#findLeftovers()
    // Asked for each commit of some accounts: a tenth of the time of the next one.
    this.#isUnavailable = database.prepare<[string]>(
      "SELECT 1 FROM backfill_repos WHERE did = ? AND state = 'unavailable' LIMIT 1",
    )
    this.#unavailable = database.prepare<[string], ListedRev>(
      `SELECT jobs.host, repos.rev FROM backfill_repos AS repos JOIN backfill_jobs AS jobs ON jobs.id = repos.job_id
       WHERE repos.did = ? AND repos.state = 'unavailable'`,
    )
    this.#forgetUnavailable = database.prepare(
      "DELETE FROM backfill_repos WHERE did = ? AND state = 'unavailable'",
    )
  }

  /** Hosts that the relay reads, as it was last heard. */
  hosts(): string[] {
    return this.#database
      .prepare<[], string>('SELECT host FROM backfill_hosts WHERE is_approved = 1 ORDER BY host')
      .pluck()
      .all()
  }

  /** The relay does not read these hosts any more: their jobs end. */
  removeHosts(hosts: Iterable<string>, nowMs: number): void {
    const disapprove = this.#database.prepare('UPDATE backfill_hosts SET is_approved = 0 WHERE host = ?')
    for (const host of hosts) {
      disapprove.run(host)
      for (const { id, state } of this.jobsOf(host))
        if (state !== 'done') this.setState(id, 'cancelled', nowMs)
    }
  }

  /** The relay reads these hosts now. */
  addHosts(hosts: Iterable<string>, nowMs: number): void {
    const approve = this.#database.prepare(
      'INSERT INTO backfill_hosts VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET is_approved = 1',
    )
    for (const host of hosts) approve.run(host, nowMs)
  }

  /**
   * Begins a job for a host, or one for each that the relay reads. A job that has not ended begins again from the start of
   * the listing, and one that has ended makes room: what became of it is in the audit. All hosts are dealt with by the same
   * few statements, because a relay that names thousands may ask for all of them at once.
   * @returns the ids of the jobs.
   */
  begin({ host = '', ...job }: JobWish, nowMs: number): number[] {
    const jobs = { ...job, host, nowMs }
    this.#beginAgain.run(jobs)
    for (const id of this.#deleteEnded.all(jobs)) this.#leftovers.add(id)
    this.#insert.run(jobs)
    return this.#idsOf.all(jobs)
  }

  /** By id. There is one for each PDS and each collection that was ever added: they may take longer than one turn may. */
  jobs(): Job[] {
    return this.#jobs.all().map(jobOf)
  }

  /** By id, those after this one, as many as are looked at in one turn of the event loop. */
  activeJobs(afterId: number): ActiveJob[] {
    const rows = this.#activeJobs.all(afterId)
    return rows.map((row) => ({ ...jobOf(row), begins: row.begins, isRetried: row.isRetried === 1 }))
  }

  /** By id. */
  jobsOf(host: string): Job[] {
    return this.#jobsOf.all(host).map(jobOf)
  }

  job(id: number): Job | undefined {
    const row = this.#job.get(id)
    return row && jobOf(row)
  }

  setState(id: number, state: JobState, nowMs: number, throughSeq = 0): void {
    const endedAtMs = state === 'done' || state === 'cancelled' ? nowMs : 0
    this.#database
      .prepare('UPDATE backfill_jobs SET state = ?, ended_at_ms = ?, through_seq = ? WHERE id = ?')
      .run(state, endedAtMs, throughSeq, id)
    if (state === 'cancelled') this.#leftovers.add(id)
  }

  /**
   * Notes a page of the listing, unless the job was begun again or ended since: what was lost before it was begun again may be
   * newer than the page.
   * @param job as it was when the page was asked for.
   * @param cursor of the next one; undefined after the last.
   */
  addListed(
    { id, begins }: Pick<ActiveJob, 'id' | 'begins'>,
    repos: readonly JobRepo[],
    listed: number,
    cursor: string | undefined,
  ): void {
    const noted = this.#noteListed.run(cursor ?? '', Number(cursor === undefined), listed, id, begins)
    if (noted.changes > 0) for (const repo of repos) this.putRepo(id, repo)
  }

  putRepo(id: number, { did, state, rev, attempts, nextAtMs, detail }: JobRepo): void {
    this.#putRepo.run(id, did, state, rev, attempts, nextAtMs, detail)
  }

  /** Nothing is left to be done for a repository, unless its host has listed a newer revision than this one. */
  deleteRepo(id: number, { did, rev }: Pick<JobRepo, 'did' | 'rev'>): void {
    this.#deleteRepo.run(id, did, rev)
  }

  /** What hosts have listed of an account whose repository jobs could not have: it was not active, or lived elsewhere. */
  unavailable(did: string): ListedRev[] {
    return this.#isUnavailable.get(did) === undefined ? [] : this.#unavailable.all(did)
  }

  /** Its mark has it read from now on. */
  forgetUnavailable(did: string): void {
    this.#forgetUnavailable.run(did)
  }

  /**
   * Repositories whose time has come, the longest overdue first.
   * @param lateMs later than any of them may have to wait: a time after it was noted before the clock was set back.
   */
  due(id: number, times: { nowMs: number; lateMs: number }, limit: number): JobRepo[] {
    return this.#due.all({ id, ...times, limit })
  }

  /** Counts repositories that are still to be read, up to `pendingMax`. */
  pending(id: number): number {
    return this.#pending.get(id) ?? 0
  }

  /** Counts repositories by their state, each up to `countedMax`. */
  counts(id: number): RepoCounts {
    if (this.#isLeft(id)) return { pending: 0, failed: 0, unavailable: 0 }
    const of = (state: RepoStatus): number => this.#count.get(id, state, countedMax) ?? 0
    return { pending: of('pending') + of('waiting'), failed: of('failed'), unavailable: of('unavailable') }
  }

  /** Counts repositories of each job, in turns of the event loop. */
  async countsOf(jobs: readonly Job[]): Promise<RepoCounts[]> {
    const counted: RepoCounts[] = []
    let left = countedMax
    for (const { id } of jobs) {
      const counts = this.counts(id)
      counted.push(counts)
      left -= repoCostOfJob + counts.pending + counts.failed + counts.unavailable
      if (left > 0) continue
      await setImmediate()
      left = countedMax
    }
    return counted
  }

  /** Repositories that are not whole, by DID. */
  repos(id: number, after: string, limit: number): JobRepo[] {
    return this.#database
      .prepare<[number, string, number], JobRepo>(
        `SELECT ${repoColumns} FROM backfill_repos WHERE job_id = ? AND did > ? ORDER BY did LIMIT ?`,
      )
      .all(id, after, limit)
  }

  /** Everything that failed or was unavailable is tried again, some at a time by `retrySome`. */
  retry(id: number, nowMs: number): void {
    this.#setRetryAfter.run('', id)
    this.setState(id, 'active', nowMs)
  }

  /** Goes on with a retry of an active job. All of it at once would take ten seconds where millions are unavailable. */
  retrySome(id: number, nowMs: number): void {
    const after = this.#retryAfter.get(id)
    if (typeof after !== 'string') return
    const page = this.repos(id, after, retriedAtOnce)
    for (const repo of page)
      if (repo.state === 'failed' || repo.state === 'unavailable')
        this.putRepo(id, { ...repo, state: 'pending', attempts: 0, nextAtMs: nowMs })
    this.#setRetryAfter.run(page.length < retriedAtOnce ? null : page.at(-1)?.did, id)
  }

  /** Whether repositories are left of jobs that are cancelled or gone. */
  get hasLeftovers(): boolean {
    return this.#leftovers.size > 0
  }

  /** Deletes some of them. All at once would take ten seconds for a PDS that has listed millions. */
  sweep(): void {
    let left = sweptAtOnce
    for (const id of this.#leftovers) {
      // A job without any counts, too: there may be thousands.
      const deleted = this.#isLeft(id) ? this.#deleteSome.run(id, id, left).changes : 0
      if (deleted < left) this.#leftovers.delete(id)
      left -= deleted + 1
      if (left <= 0) return
    }
  }

  /** The change that left a job may not have been stored, so the job is looked at too. */
  #isLeft(id: number): boolean {
    return this.#leftovers.has(id) && this.#isOver(id)
  }

  #isOver(id: number): boolean {
    return (this.job(id)?.state ?? 'cancelled') === 'cancelled'
  }

  /** What a stop has left of them. */
  #findLeftovers(): void {
    const nextJob = this.#database
      .prepare<[number], number | null>('SELECT min(job_id) FROM backfill_repos WHERE job_id > ?')
      .pluck()
    for (let id = nextJob.get(0); typeof id === 'number'; id = nextJob.get(id))
      if (this.#isOver(id)) this.#leftovers.add(id)
  }
}

function jobOf({ isListed, ...row }: JobRow): Job {
  return { ...row, isListed: isListed === 1 }
}
