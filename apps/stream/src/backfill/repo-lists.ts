import type { Logger } from '@tributary/telemetry'
import type { Clock } from '@tributary/lanes'
import type { CommitAndSync, StateDatabase } from '../state-database.ts'
import type { ActiveJob, BackfillStore, Job, JobRepo } from './backfill-store.ts'
import { HostAwayError, type HostRequests } from './host-requests.ts'
import { hasCome, retryWait } from './retry-wait.ts'
import {
  BadAnswerError,
  cursorParam,
  isAnswerFault,
  type ListedRepo,
  nextCursor,
  pageBounds,
  readListRepos,
} from './sync-answers.ts'

export interface RepoListsOptions {
  database: StateDatabase
  store: BackfillStore
  requests: HostRequests
  /** Gives the result of an answer; a defect of ours on the way costs that answer. */
  asked: <T>(ask: () => Promise<T>) => Promise<T>
  /** Tells the work of a job for a repository that its host listed. */
  missing: (repo: ListedRepo) => JobRepo | undefined
  logger: Logger
  clock: Clock
  random: () => number
  commit: CommitAndSync
}

/** Repositories that a PDS may list: four times what the largest have. */
const listedMax = 2_000_000
/** Listings that are asked for at a time: each may bring 256 KiB, and a relay names 10,000 PDSs. */
const listingsMax = 256
/** Pages with next to nothing on them that a PDS may list. With more it could name new cursors without end. */
const thinPages = { reposMin: 10, max: 20 }
const retryMs = { first: 1000, max: 600_000 }

/** Has the repositories of PDSs listed, page by page. */
export class RepoLists {
  readonly #options: RepoListsOptions
  /** Jobs whose listing is under way, and when those may be tried again that failed. */
  readonly #listing = new Set<number>()
  readonly #retries = new Map<number, { attempts: number; nextAtMs: number; error: string }>()
  /** How many pages of a job's listing had next to nothing on them, and were not the last one. */
  readonly #thinPages = new Map<number, number>()

  constructor(options: RepoListsOptions) {
    this.#options = options
  }

  /** Why the listing of a job's host failed last; undefined when it did not. */
  errorOf({ id }: Pick<Job, 'id'>): string | undefined {
    return this.#retries.get(id)?.error
  }

  /** The host of a job is asked again at once, whatever it answered before. */
  retryNow(id: number): void {
    this.#retries.delete(id)
  }

  /** Whether the next page of a job's listing is asked for now. */
  isUnderWay({ id }: Job): boolean {
    return this.#listing.has(id)
  }

  /** Whether it is time to ask for the next page. */
  isDue(job: Job): boolean {
    const { nextAtMs = 0 } = this.#retries.get(job.id) ?? {}
    const hasRoom = this.#listing.size < listingsMax && !this.isUnderWay(job)
    return !job.isListed && hasRoom && hasCome(nextAtMs, this.#options.clock.nowMs())
  }

  /** Has the next page of a host's repositories listed. @throws what is a fault of the disk. */
  async list(job: ActiveJob, origin: string): Promise<void> {
    const { requests, database, store, asked, missing, clock, random, commit, logger } = this.#options
    const { id, cursor } = job
    this.#listing.add(id)
    try {
      if (job.listed >= listedMax) throw new BadAnswerError(`lists more than ${listedMax} repositories`)
      if (cursor === '') this.#thinPages.delete(id)
      const thin = this.#thinPages.get(id) ?? 0
      if (thin >= thinPages.max)
        throw new BadAnswerError(`lists fewer than ${thinPages.reposMin} repositories on too many pages`)
      const method = `listRepos?limit=500${cursorParam(cursor)}`
      const page = await asked(async () => readListRepos(await requests.ask(origin, method, pageBounds)))
      const repos = page.rows.flatMap((repo) => missing(repo) ?? [])
      const next = nextCursor(page, cursor)
      if (next === undefined) this.#thinPages.delete(id)
      else if (page.rows.length < thinPages.reposMin) this.#thinPages.set(id, thin + 1)
      await commit(database, () => store.addListed(job, repos, page.rows.length, next))
      this.#retries.delete(id)
    } catch (error) {
      if (!isAnswerFault(error)) throw error
      const attempts = (this.#retries.get(id)?.attempts ?? 0) + 1
      const afterMs = error instanceof HostAwayError ? error.retryAfterMs : undefined
      const nextAtMs = clock.nowMs() + retryWait(attempts - 1, retryMs, afterMs, random)
      this.#retries.set(id, { attempts, nextAtMs, error: error.message })
      logger.info({ job: id, host: job.host, error: error.message }, 'a PDS does not list its repositories')
    } finally {
      this.#listing.delete(id)
    }
  }
}
