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
import { AccountCheck, type AccountCheckOptions } from './account-check.ts'
import { afterAttempt, attemptsOf, waitAfter } from './attempts.ts'
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
import type { HostRequests } from './host-requests.ts'
import { HostTurns } from './host-turns.ts'
import type { FillOutcome, FillWish, RepoFill } from './repo-fill.ts'
import { missingRepo } from './missing-repo.ts'
import { Readings, reposMax, unapprovedHost, unknownHost } from './readings.ts'
import { RepoLists } from './repo-lists.ts'
import { hasCome, waitMsMax } from './retry-wait.ts'
import { BadAnswerError, isAnswerFault, type ListedRepo } from './sync-answers.ts'

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
  /** Told how accounts are, where events that said so were lost. Default: nobody. */
  corrections?: AccountCheckOptions['corrections'] | undefined
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
/** Hosts that are looked at in one turn of the event loop though nothing of them can be read now: some five milliseconds. */
const looksPerTurn = 100
/** Repositories of jobs of which it is not saved yet what became of them. With more no others are begun: each look passes them over. */
const unsavedMax = 500
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
  readonly #lists: RepoLists
  readonly #accounts: AccountCheck
  readonly #turns = new HostTurns()
  #isHandingOut = false
  /** Jobs that are being stored as done. */
  readonly #ending = new Set<number>()
  readonly #markRetries = new RecentMap<string, Retry & { seen: string }>(marksMax)
  #afterMark = ''
  #running: Promise<unknown> | undefined

  /** @param stop aborted by `close`. Whatever is under way ends with it. */
  constructor(options: BackfillOptions, stop: AbortController) {
    const { clock = systemClock, random = Math.random, commit = commitAndSync } = options
    this.#options = options
    this.#clock = clock
    this.#random = random
    this.#commit = commit
    this.#stop = stop
    const parts = { ...options, clock, random, commit, asked: this.#asked.bind(this) }
    this.#hosts = new HostList({ ...parts, onAdded: (host) => void this.begin('host-added', { host }) })
    this.#lists = new RepoLists({ ...parts, missing: (repo) => this.#missing(repo) })
    this.#accounts = new AccountCheck({ ...parts, signal: stop.signal })
  }

  get hostListing(): HostListing {
    return this.#hosts.listing
  }

  /** Why it is not known of all accounts whether they are there still; undefined when it is. */
  get accountsReason(): string | undefined {
    return this.#accounts.reason
  }

  /** Repositories that are read now. */
  get underWay(): number {
    return this.#readings.size
  }

  /** Why the listing of a job's host failed last; undefined when it did not. */
  errorOf(job: Job): string | undefined {
    return this.#lists.errorOf(job)
  }

  start(): void {
    this.#running = Promise.all([this.#run(), this.#guarded(() => this.#accounts.run())])
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
    for (const id of ids) this.#lists.retryNow(id)
    return ids
  }

  /** The host of a job is asked again at once, whatever it answered before. */
  retryNow(job: Job): void {
    this.#lists.retryNow(job.id)
  }

  /** The relay no longer had all events since the last one that was seen, or may not have had them. */
  windowMissed(): void {
    const begin = (): number[] => {
      this.#accounts.begin()
      return this.begin('window-missed')
    }
    const jobs = this.#options.database.transaction(begin)()
    this.#options.logger.warn(
      { jobs: jobs.length },
      'every PDS is read again, and the relay asked about every account, for what the relay may not have had',
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
        this.#lookForMarked()
        void this.#guarded(() => this.#handOut())
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
    const { store } = this.#options
    const pending = store.pending(job.id)
    const origin = this.#originOf(job.host)
    if (origin !== undefined) {
      if (pending < pendingMax && this.#lists.isDue(job))
        void this.#guarded(() => this.#lists.list(job, origin))
      if (pending > 0 && !this.#turns.has(job.host) && this.#due(job, 1).length > 0) this.#turns.add(job.host)
    }
    const isDone = job.isListed && !job.isRetried && pending === 0 && !this.#lists.isUnderWay(job)
    if (isDone && !this.#ending.has(job.id)) void this.#guarded(() => this.#end(job))
  }

  /** Where a host is asked. Undefined while it wants to be left alone, or when it has a name that cannot be asked. */
  #originOf(host: string): string | undefined {
    const target = normalizeHost(host, this.#options)
    return 'url' in target && this.#options.requests.quietMs(target.url) === 0 ? target.url : undefined
  }

  /** Repositories of a job whose time has come. */
  #due({ id }: Job, limit: number): JobRepo[] {
    const { store, settleMs } = this.#options
    const nowMs = this.#clock.nowMs()
    return store.due(id, { nowMs, lateMs: nowMs + Math.max(waitMsMax, settleMs) }, limit)
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

  /**
   * Gives the places that are free to hosts in turn, one in each turn of the event loop. To be called when there may be one,
   * or something to be read.
   */
  async #handOut(): Promise<void> {
    if (this.#isHandingOut) return
    this.#isHandingOut = true
    try {
      while (this.#takeNext()) await nextTurn()
    } finally {
      this.#isHandingOut = false
    }
  }

  /** Begins the next reading. @returns whether another one may be begun after it. */
  #takeNext(): boolean {
    const { requests, relayUrl } = this.#options
    // The relay is asked for each that is read: nothing comes of it while the relay wants to be left alone.
    if (this.#stop.signal.aborted || requests.quietMs(relayUrl) > 0) return false
    let looks = 0
    for (const host of this.#turns.hosts()) {
      if (this.#readings.free <= 0) return false
      // A host whose places are taken keeps its turn until one is free.
      if (this.#readings.roomFor(host) <= 0) continue
      const mark = (did: string): boolean => this.#beginMark(did as Did, host) // the states are of accounts
      if (this.#turns.take(host, { mark, ofJob: () => this.#beginOfJob(host) })) return true
      if (++looks >= looksPerTurn) return true
    }
    return false
  }

  #beginOfJob(host: string): boolean {
    if (this.#unsaved.size >= unsavedMax || this.#originOf(host) === undefined) return false
    for (const job of this.#options.store.jobsOf(host)) {
      if (job.state !== 'active') continue
      const repo = this.#due(job, 2 * reposMax + this.#unsaved.size).find(
        ({ did }) => !this.#readings.has(did) && !this.#unsaved.has(`${job.id} ${did}`),
      )
      if (repo) {
        void this.#guarded(() => this.#takeRepo(job, repo))
        return true
      }
    }
    return false
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
      const { settleMs } = this.#options
      const changed = afterAttempt(repo, outcome, {
        settleMs,
        nowMs: this.#clock.nowMs(),
        random: this.#random,
      })
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
      this.#endReading(did)
    }
  }

  /** Its place is given to the next one at once. */
  #endReading(did: string): void {
    this.#readings.end(did)
    void this.#guarded(() => this.#handOut())
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

  /** Has some marked repositories wait for the turns of their hosts. */
  #lookForMarked(): void {
    const { states, hostOf } = this.#options
    const page = states.marked(this.#afterMark, 100)
    this.#afterMark = page.length < 100 ? '' : (page.at(-1) ?? '')
    for (const did of page)
      if (this.#isMarkDue(did)) this.#turns.addMark(this.#placeOf(hostOf(did as Did)), did) // the states are of accounts
  }

  #isMarkDue(did: string): boolean {
    if (!this.#options.states.get(did)?.needsRefetch || this.#readings.has(did)) return false
    const retry = this.#markRetries.get(did)
    // What its host says may be different after an event of the account.
    return !retry || hasCome(retry.nextAtMs, this.#clock.nowMs()) || retry.seen !== this.#seenOf(did)
  }

  #beginMark(did: Did, host: string): boolean {
    const isDue = this.#isMarkDue(did)
    if (isDue) void this.#guarded(() => this.#takeMark(did, host))
    return isDue
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
        this.#clock.nowMs() + (outcome.is === 'whole' ? 0 : waitAfter(outcome, attempts, this.#random))
      if (outcome.is === 'whole') this.#markRetries.delete(did)
      else this.#markRetries.set(did, { attempts, seen, nextAtMs })
    } finally {
      this.#endReading(did)
    }
  }
}
