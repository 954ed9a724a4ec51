/**
 * Makes the archive whole: for every PDS that the relay reads, every repository, as far as live events did not bring it.
 *
 * A job is durable, and is about one PDS: it lists the repositories, leaves out those that the archive has everything of,
 * and has the others read, verified and written one by one. Repositories that are marked, because an event of theirs was
 * lost or did not continue what is stored, are read again one by one without a job.
 * Must hold: a repository counts as done only together with its durable rows; what a stop interrupts goes on after the
 * next start, and gives no row twice; a host is asked at its own pace, and one that is away holds up no other.
 * Deliberately elsewhere: how one repository is had (`RepoFill`), what is written of it (`RepoRefill` of the ingest).
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isStorageFault } from '@tributary/event-log'
import { normalizeHost, RecentMap } from '@tributary/identity'
import { systemClock, wait, type Clock } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { type CommitAndSync, commitAndSync, type StateDatabase } from '../state-database.ts'
import type { RepoStates } from '../ingest/repo-states.ts'
import type { WatchedCollections } from '../policy/watched-collections.ts'
import {
  type ActiveJob,
  type BackfillStore,
  type Job,
  type JobCause,
  type JobRepo,
  type ListedRev,
  pendingMax,
} from './backfill-store.ts'
import { HostList, type HostListing } from './host-list.ts'
import { HostAwayError, type HostRequests } from './host-requests.ts'
import type { FillOutcome, FillWish, RepoFill } from './repo-fill.ts'
import { missingRepo } from './missing-repo.ts'
import { Readings, reposMax, unapprovedHost, unknownHost } from './readings.ts'
import { hasCome, retryWait, waitMsMax } from './retry-wait.ts'
import {
  BadAnswerError,
  cursorParam,
  isAnswerFault,
  type ListedRepo,
  nextCursor,
  pageBounds,
  readListRepos,
} from './sync-answers.ts'

export interface BackfillOptions {
  database: StateDatabase
  store: BackfillStore
  states: RepoStates
  watched: WatchedCollections
  fill: RepoFill
  requests: HostRequests
  /** The host of an account as it is known; empty when it is not. */
  hostOf: (did: Did) => string
  /** Origin of the relay. */
  relayUrl: string
  allowedPrivateHosts: readonly string[]
  /** How long events of an account are waited for before its repository is taken in their place, in milliseconds. */
  settleMs: number
  headSeq: () => number
  logger: Logger
  /** A repository was made whole, or was not. */
  onRepo: (outcome: FillOutcome['is']) => void
  onFailure: (error: Error) => void
  /** Default: that of the machine. */
  clock?: Clock
  /** A number from 0 up to 1, by which waits differ. Default: `Math.random`. */
  random?: () => number
  commit?: CommitAndSync
}

const tickMs = 250
/** Repositories that a PDS may list: four times what the largest have. */
const listedMax = 2_000_000
/** Listings that are asked for at a time: each may bring 256 KiB, and a relay names 10,000 PDSs. */
const listingsMax = 256
/** Pages with next to nothing on them that a PDS may list. With more it could name new cursors without end. */
const thinPages = { reposMin: 10, max: 20 }
/**
 * Attempts at a repository whose host gives nothing that can be used, and at one that stays older than what is known of it,
 * which takes some twenty minutes: nobody may have what its host has lost.
 */
const attemptsMax = { refused: 5, older: 12 }
/** Until somebody is asked again who did not answer; and for what nobody has, which an event or an operator tells sooner. */
const retryMs = { first: 1000, max: 600_000, unavailable: waitMsMax, putOff: 30_000 }
/** Marked repositories whose last attempt is remembered, so that they are not tried all the time. */
const marksMax = 20_000
interface Retry {
  attempts: number
  nextAtMs: number
}

export class Backfill {
  readonly #options: BackfillOptions
  readonly #clock: Clock
  readonly #random: () => number
  readonly #commit: CommitAndSync
  readonly #stop: AbortController
  readonly #readings = new Readings()
  readonly #hosts: HostList
  /** Repositories of jobs of which it is not saved what became of them, with what was listed of those that are unavailable. */
  readonly #unsaved = new Map<string, ListedRev | undefined>()
  /** Jobs whose listing is under way, and when those may be tried again that failed. */
  readonly #listing = new Set<number>()
  /** How many pages of a job's listing had next to nothing on them, and were not the last one. */
  readonly #thinPages = new Map<number, number>()
  /** Jobs that are being stored as done. */
  readonly #ending = new Set<number>()
  readonly #listRetries = new Map<number, Retry & { error: string }>()
  readonly #markRetries = new RecentMap<string, Retry & { seen: string }>(marksMax)
  #afterMark = ''
  #running: Promise<void> | undefined

  /** @param stop aborted by `close`. Whatever is under way ends with it. */
  constructor(options: BackfillOptions, stop: AbortController) {
    const { clock = systemClock, random = Math.random, commit = commitAndSync } = options
    this.#options = options
    this.#clock = clock
    this.#random = random
    this.#commit = commit
    this.#stop = stop
    this.#hosts = new HostList({
      ...options,
      clock,
      random,
      commit,
      onAdded: (host) => void this.begin('host-added', { host }),
      asked: (ask) => this.#asked(ask),
    })
  }

  get hostListing(): HostListing {
    return this.#hosts.listing
  }

  /** Repositories that are read now. */
  get underWay(): number {
    return this.#readings.size
  }

  /** Why the listing of a job's host failed last; undefined when it did not. */
  errorOf(job: Job): string | undefined {
    return this.#listRetries.get(job.id)?.error
  }

  start(): void {
    this.#running = this.#run()
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the stream stops'))
    await this.#running
  }

  /**
   * Begins jobs: for a host or for all approved ones, for a collection or for all that is watched. To be called within a
   * transaction, with what makes them necessary.
   * @returns the ids of the jobs.
   */
  begin(cause: JobCause, wish: { host?: string; collection?: string; revision?: number } = {}): number[] {
    const { store, watched } = this.#options
    const job = { collection: '', revision: watched.revision, ...wish, cause }
    const ids = store.begin(job, this.#clock.nowMs())
    for (const id of ids) this.#listRetries.delete(id)
    return ids
  }

  /** The host of a job is asked again at once, whatever it answered before. */
  retryNow(job: Job): void {
    this.#listRetries.delete(job.id)
  }

  /** The relay no longer had all events since the last one that was seen, or may not have had them. */
  windowMissed(): void {
    const jobs = this.#options.database.transaction(() => this.begin('window-missed'))()
    this.#options.logger.warn(
      { jobs: jobs.length },
      'every PDS is read again for what the relay may not have',
    )
  }

  /** An account is active. What jobs could not have of it is read now, unless the archive has it by now. */
  noteActive(did: string): void {
    const { store, states } = this.#options
    const unsaved = [...this.#unsaved].filter(([key]) => key.endsWith(` ${did}`))
    const found = [...store.unavailable(did), ...unsaved.flatMap(([, repo]) => repo ?? [])]
    if (found.length === 0) return
    if (found.some((repo) => this.#lacksSome(did, this.#revOf(did, repo)))) states.mark(did)
    states.alongside(() => store.forgetUnavailable(did))
  }

  /** The revision that the host of an account listed. Other hosts may list what they like. */
  #revOf(did: string, { host, rev }: ListedRev): string {
    return this.#options.hostOf(did as Did) === host ? rev : '' // of a listing
  }

  /** Does not wait for the time of its next attempt, however often it was read today. */
  retryMark(did: string): void {
    this.#options.fill.forgetRereads(did)
    this.#markRetries.delete(did)
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    const { database, store } = this.#options
    while (!signal.aborted) {
      try {
        if (this.#hosts.isDue) void this.#guarded(() => this.#hosts.ask())
        for (let jobs = store.activeJobs(0); jobs.length > 0; jobs = store.activeJobs(jobs.at(-1)?.id ?? 0)) {
          for (const job of jobs) this.#advance(job)
          await this.#retrySome(jobs)
          await nextTurn()
        }
        this.#takeMarked()
        if (store.hasLeftovers) await this.#commit(database, () => store.sweep())
      } catch (error) {
        this.#options.onFailure(error as Error) // SQLite throws errors only
        return
      }
      await wait(this.#clock, tickMs, signal)
    }
  }

  /** Goes on with retries where few repositories are pending. */
  async #retrySome(jobs: readonly ActiveJob[]): Promise<void> {
    const { database, store } = this.#options
    for (const { id, isRetried } of jobs)
      if (isRetried && store.pending(id) < pendingMax)
        await this.#commit(database, () => store.retrySome(id, this.#clock.nowMs()))
  }

  /** What was asked for. A defect of ours in reading an answer costs that answer. */
  async #asked<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      if (isAnswerFault(error)) throw error
      throw new BadAnswerError(this.#noteDefect(error), { cause: error })
    }
  }

  /** Makes a repository whole. A defect of ours on the way costs that repository. */
  async #filled(wish: FillWish): Promise<FillOutcome> {
    try {
      return await this.#options.fill.makeWhole(wish)
    } catch (error) {
      return { is: 'refused', detail: this.#noteDefect(error) }
    }
  }

  /** What operators are told of a defect of ours. @throws what is a fault of the disk, or comes of the stop. */
  #noteDefect(error: unknown): string {
    if (this.#stop.signal.aborted || isStorageFault(error)) throw error
    this.#options.logger.error({ err: error }, 'a defect of the backfill costs one answer')
    return `internal-error: ${error instanceof Error ? error.message : String(error)}`
  }

  /** Runs something that ends with the stop. What it throws is a fault of the disk. */
  async #guarded(run: () => Promise<void>): Promise<void> {
    try {
      await run()
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#options.onFailure(error as Error) // our own code throws errors only
    }
  }

  #advance(job: ActiveJob): void {
    const { store, requests } = this.#options
    const target = normalizeHost(job.host, this.#options)
    const pending = store.pending(job.id)
    if ('url' in target && requests.quietMs(target.url) === 0) {
      const isDue = hasCome(this.#listRetries.get(job.id)?.nextAtMs ?? 0, this.#clock.nowMs())
      const hasRoom = pending < pendingMax && this.#listing.size < listingsMax
      if (!job.isListed && isDue && hasRoom && !this.#listing.has(job.id))
        void this.#guarded(() => this.#list(job, target.url))
      if (pending > 0) this.#takeDue(job)
    }
    const isDone = job.isListed && !job.isRetried && pending === 0 && !this.#listing.has(job.id)
    if (isDone && !this.#ending.has(job.id)) void this.#guarded(() => this.#end(job))
  }

  async #end({ id, host, collection }: Job): Promise<void> {
    const { database, store, headSeq, logger } = this.#options
    this.#ending.add(id)
    try {
      await this.#commit(database, () => store.setState(id, 'done', this.#clock.nowMs(), headSeq()))
      const { failed, unavailable } = store.counts(id)
      logger.info({ job: id, host, collection, failed, unavailable }, 'a PDS has been backfilled')
    } finally {
      this.#ending.delete(id)
    }
  }

  /** Has the next page of a host's repositories listed. */
  async #list(job: Job, origin: string): Promise<void> {
    const { requests, database, store } = this.#options
    const { id, cursor } = job
    this.#listing.add(id)
    try {
      if (job.listed >= listedMax) throw new BadAnswerError(`lists more than ${listedMax} repositories`)
      if (cursor === '') this.#thinPages.delete(id)
      const thin = this.#thinPages.get(id) ?? 0
      if (thin >= thinPages.max)
        throw new BadAnswerError(`lists fewer than ${thinPages.reposMin} repositories on too many pages`)
      const method = `listRepos?limit=500${cursorParam(cursor)}`
      const page = await this.#asked(async () =>
        readListRepos(await requests.ask(origin, method, pageBounds)),
      )
      const repos = page.rows.flatMap((repo) => this.#missing(repo) ?? [])
      const next = nextCursor(page, cursor)
      if (next === undefined) this.#thinPages.delete(id)
      else if (page.rows.length < thinPages.reposMin) this.#thinPages.set(id, thin + 1)
      await this.#commit(database, () => {
        // Somebody may have begun the job again, or ended it, meanwhile.
        const now = store.job(id)
        if (now?.state !== 'active' || now.cursor !== cursor || now.isListed) return
        store.addListed(id, repos, page.rows.length, next)
      })
      this.#listRetries.delete(id)
    } catch (error) {
      if (!isAnswerFault(error)) throw error
      const attempts = (this.#listRetries.get(id)?.attempts ?? 0) + 1
      const afterMs = error instanceof HostAwayError ? error.retryAfterMs : undefined
      const nextAtMs = this.#clock.nowMs() + retryWait(attempts - 1, retryMs, afterMs, this.#random)
      this.#listRetries.set(id, { attempts, nextAtMs, error: error.message })
      this.#options.logger.info(
        { job: id, host: job.host, error: error.message },
        'a PDS does not list its repositories',
      )
    } finally {
      this.#listing.delete(id)
    }
  }

  /** Whether the archive lacks something of an account that is active. @param rev that its repository has at least. */
  #lacksSome(did: string, rev = ''): boolean {
    return this.#missing({ did: did as Did, rev, inactive: undefined }) !== undefined // of a listing or an event
  }

  /** What a job has to do for a repository that its host listed. Undefined when the archive has everything of it. */
  #missing(repo: ListedRepo): JobRepo | undefined {
    const { states, watched, settleMs } = this.#options
    const { newestAddition } = watched
    return missingRepo(repo, states.get(repo.did), { newestAddition, settleMs, nowMs: this.#clock.nowMs() })
  }

  #takeDue(job: Job): void {
    const { store, settleMs } = this.#options
    const { id, host } = job
    let room = this.#readings.roomFor(host)
    if (room <= 0) return
    const nowMs = this.#clock.nowMs()
    const times = { nowMs, lateMs: nowMs + Math.max(waitMsMax, settleMs) }
    for (const repo of store.due(id, times, 2 * reposMax + this.#unsaved.size)) {
      if (this.#readings.has(repo.did) || this.#unsaved.has(`${id} ${repo.did}`)) continue
      void this.#guarded(() => this.#takeRepo(job, repo))
      if (--room === 0) return
    }
  }

  async #takeRepo(job: Job, repo: JobRepo): Promise<void> {
    const { states, watched, store, onRepo } = this.#options
    const { id, host } = job
    const did = repo.did as Did // read as one from the listing
    const newest = (): string => `${this.#seenOf(did)} ${states.get(did)?.rev}`
    const seen = newest()
    const onWhole = (): void => {
      const revision = states.get(did)?.completeRevision ?? 0
      // The job may begin again, for a collection that came after the repository was asked for, and list it once more.
      this.#whenSaved(
        id,
        did,
        undefined,
        () => watched.newestAddition <= revision && store.deleteRepo(id, repo),
      )
    }
    const reading = this.#readings.begin(did, host)
    const largeTurn = (): string | undefined => this.#readings.enlarge(reading)
    try {
      // What a host says of an account is no reason to leave it: the relay is asked.
      const mayHaveCome = repo.state === 'waiting' || repo.detail === ''
      if (mayHaveCome && !this.#lacksSome(did, repo.rev)) return onWhole()
      const mayReplace = repo.state === 'waiting'
      const outcome = await this.#filled({ did, host, mayReplace, onWhole, largeTurn })
      onRepo(outcome.is)
      if (outcome.is === 'whole') return
      const changed = this.#afterAttempt(repo, outcome)
      const isUnavailable = changed.state === 'unavailable'
      const listed = { host, rev: repo.rev }
      // Events of the account came meanwhile, so what was said of it may be out of date. Its mark has it read.
      const isMarked =
        isUnavailable &&
        newest() !== seen &&
        this.#lacksSome(did, this.#revOf(did, listed)) &&
        !states.get(did)?.isHidden
      if (isMarked) states.mark(did)
      this.#whenSaved(id, did, isUnavailable ? listed : undefined, () => {
        // The job may be gone by now, or cancelled. Nothing is left to be done then.
        if ((store.job(id)?.state ?? 'cancelled') === 'cancelled') return
        if (isMarked) store.deleteRepo(id, repo)
        else store.putRepo(id, changed)
      })
    } finally {
      this.#readings.end(did)
    }
  }

  /** Changes what a job has of a repository together with its state, and does not take it until then. */
  #whenSaved(id: number, did: string, unavailable: ListedRev | undefined, change: () => unknown): void {
    const key = `${id} ${did}`
    this.#unsaved.set(key, unavailable)
    this.#options.states.alongside(
      () => void change(),
      () => void this.#unsaved.delete(key),
    )
  }

  /** What a job knows of a repository that it could not make whole. */
  #afterAttempt(repo: JobRepo, outcome: Exclude<FillOutcome, { is: 'whole' }>): JobRepo {
    const attempts = repo.attempts + attemptsOf(outcome)
    const isLiveBehind = outcome.is === 'live-behind'
    const afterMs = isLiveBehind ? this.#options.settleMs : this.#retryWaitMs(outcome, attempts)
    const detail = isLiveBehind ? 'events of the account are expected' : outcome.detail
    const changed = { ...repo, attempts, detail, nextAtMs: this.#clock.nowMs() + afterMs }
    if (outcome.is === 'unavailable') return { ...changed, state: 'unavailable' }
    const isUseless = outcome.is === 'refused' || outcome.is === 'older'
    if (isUseless && attempts >= attemptsMax[outcome.is]) return { ...changed, state: 'failed' }
    return isLiveBehind ? { ...changed, state: 'waiting' } : changed
  }

  /** Reads marked repositories again, a few at a time. */
  #takeMarked(): void {
    const { states, hostOf } = this.#options
    const page = states.marked(this.#afterMark, 100)
    this.#afterMark = page.length < 100 ? '' : (page.at(-1) ?? '')
    for (const did of page) {
      if (!states.get(did)?.needsRefetch) continue
      const retry = this.#markRetries.get(did)
      // What its host says may be different after an event of the account.
      const isDue = !retry || hasCome(retry.nextAtMs, this.#clock.nowMs())
      const isEarly = !isDue && retry.seen === this.#seenOf(did)
      if (this.#readings.has(did) || isEarly) continue
      const host = this.#placeOf(hostOf(did as Did)) // the states are of accounts
      if (this.#readings.roomFor(host) > 0) void this.#guarded(() => this.#takeMark(did as Did, host))
    }
  }

  /** For whom a marked account is read. Whoever names hosts that the relay does not read gets no more by naming many. */
  #placeOf(host: string): string {
    const { approved } = this.#hosts
    if (host === '') return unknownHost
    return approved.size === 0 || approved.has(host) ? host : unapprovedHost
  }

  /** The newest identity and account events of an account. */
  #seenOf(did: string): string {
    const { identitySeen = '', accountSeen = '' } = this.#options.states.get(did) ?? {}
    return `${identitySeen} ${accountSeen}`
  }

  async #takeMark(did: Did, host: string): Promise<void> {
    const { onRepo } = this.#options
    const before = this.#markRetries.get(did)?.attempts ?? 0
    const seen = this.#seenOf(did)
    const reading = this.#readings.begin(did, host)
    const largeTurn = (): string | undefined => this.#readings.enlarge(reading)
    try {
      // After a repair next to no documents are known. Nobody is asked in the place of those.
      const mayAsk = (known: string): boolean => this.#readings.move(reading, this.#placeOf(known))
      const outcome = await this.#filled({ did, mayReplace: true, onWhole: () => {}, largeTurn, mayAsk })
      onRepo(outcome.is)
      const attempts = before + attemptsOf(outcome)
      const nextAtMs =
        this.#clock.nowMs() + (outcome.is === 'whole' ? 0 : this.#retryWaitMs(outcome, attempts))
      if (outcome.is === 'whole') this.#markRetries.delete(did)
      else this.#markRetries.set(did, { attempts, seen, nextAtMs })
    } finally {
      this.#readings.end(did)
    }
  }

  #retryWaitMs(outcome: FillOutcome, attempts: number): number {
    // What would make it to be had again comes as an event, or by hand.
    if (outcome.is === 'unavailable') return retryMs.unavailable
    const askedMs = outcome.is === 'later' ? outcome.afterMs : undefined
    if (attemptsOf(outcome) === 0) {
      const { putOff } = retryMs
      return retryWait(0, { first: putOff, max: putOff }, askedMs, this.#random)
    }
    return retryWait(attempts - 1, retryMs, askedMs, this.#random)
  }
}

/** A repository that was put off was not tried: its next wait does not grow, and one bad answer later is not its last. */
function attemptsOf(outcome: FillOutcome): 0 | 1 {
  return outcome.is === 'later' && outcome.isPutOff === true ? 0 : 1
}
