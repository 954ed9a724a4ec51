import type { RepoStates } from '../ingest/repo-states.ts'
import type { WatchedCollections } from '../policy/watched-collections.ts'
import type { Backfill } from './backfill.ts'
import type { BackfillStore, Job, RepoCounts } from './backfill-store.ts'

/** What the archive has of the records of one collection of one PDS. */
export interface CollectionCoverage {
  collection: string
  /** `complete`: the archive has every record that could be read, and all that came live since. */
  status: 'complete' | 'unknown'
  /** With `complete`: the newest seq at that moment. */
  completeAtSeq?: number
  /** With `unknown`: why. */
  reason?: string
}

export interface HostCoverage {
  hostname: string
  collections: CollectionCoverage[]
  /** Repositories that are still to be read, that could not be read, and that nobody has now. */
  pending: number
  failed: number
  unavailable: number
}

export interface CoverageOptions {
  store: BackfillStore
  backfill: Pick<Backfill, 'hostListing' | 'errorOf' | 'accountsReason'>
  watched: WatchedCollections
  states: Pick<RepoStates, 'markedCount'>
  headSeq: () => number
}

/**
 * PDSs of one page times watched collections. An answer is checked against its lexicon and written in one turn of the event
 * loop, some 25 ms of work.
 */
const rowsPerPage = 2500

/** Says what is whole and what is not, for each approved PDS and watched collection. */
export class Coverage {
  readonly #options: CoverageOptions

  constructor(options: CoverageOptions) {
    this.#options = options
  }

  /**
   * Has `limit` hosts at most, and fewer where many collections are watched. Where there are more, `cursor` is set.
   * @param after the last host of the page before.
   */
  async page(after: string, limit: number): Promise<{ hosts: HostCoverage[]; cursor?: string }> {
    const { store, watched } = this.#options
    const rest = store.hosts().filter((host) => host > after)
    const hostsMax = Math.max(1, Math.floor(rowsPerPage / watched.list().length))
    const page = rest.slice(0, Math.min(limit, hostsMax))
    const last = page.at(-1)
    const jobs = page.flatMap((host) => store.jobsOf(host))
    const counts = await store.countsOf(jobs)
    const counted = new Map(jobs.map((job, i) => [nameOf(job), counts[i]]))
    const hosts = page.map((host) => this.#ofHost(host, store.jobsOf(host), counted))
    return { hosts, ...(rest.length > page.length && last !== undefined ? { cursor: last } : {}) }
  }

  /** What is true of all hosts. */
  get summary(): { revision: number; headSeq: number; markedRepositories: number; relayError?: string } {
    const { watched, backfill, states, headSeq } = this.#options
    const { hostListing } = backfill
    return {
      revision: watched.revision,
      headSeq: headSeq(),
      markedRepositories: states.markedCount(),
      ...(hostListing.is === 'unknown' ? { relayError: hostListing.error } : {}),
    }
  }

  #ofHost(
    hostname: string,
    jobs: readonly Job[],
    counted: ReadonlyMap<string, RepoCounts | undefined>,
  ): HostCoverage {
    const { store, watched } = this.#options
    const counts = { pending: 0, failed: 0, unavailable: 0 }
    // Counts of a job that has ended since are counted again.
    const ofJobs = new Map(jobs.map((job) => [job.id, counted.get(nameOf(job)) ?? store.counts(job.id)]))
    for (const ofJob of ofJobs.values()) {
      counts.pending += ofJob.pending
      counts.failed = Math.max(counts.failed, ofJob.failed)
      counts.unavailable = Math.max(counts.unavailable, ofJob.unavailable)
    }
    const collections = watched
      .list()
      .map(({ collection, addedRevision }) => this.#ofCollection(collection, addedRevision, { jobs, ofJobs }))
    return { hostname, collections, ...counts }
  }

  #ofCollection(
    collection: string,
    addedRevision: number,
    { jobs, ofJobs }: { jobs: readonly Job[]; ofJobs: ReadonlyMap<number, RepoCounts> },
  ): CollectionCoverage {
    const about = jobs.filter((job) => job.collection === '' || job.collection === collection)
    const open = about.find(({ state }) => state === 'active' || state === 'paused')
    if (open)
      return {
        collection,
        status: 'unknown',
        reason: this.#reasonOf(open, ofJobs.get(open.id)?.pending ?? 0),
      }
    // What made one for everything necessary is not mended when that was cancelled, and earlier ones know nothing of it.
    const cancelled = jobs.findLast((job) => job.state === 'cancelled' && job.collection === '')
    const sinceId = cancelled?.id ?? 0
    // A job makes whole whatever was watched when it began, for the collection that it is for or not.
    const done = jobs.filter(
      ({ id, state, revision }) => state === 'done' && id > sinceId && revision >= addedRevision,
    )
    if (done.length === 0)
      return { collection, status: 'unknown', reason: 'no backfill of this PDS was done' }
    const failed = Math.max(...done.map(({ id }) => ofJobs.get(id)?.failed ?? 0))
    if (failed > 0)
      return { collection, status: 'unknown', reason: `${repositories(failed)} could not be read` }
    const reason = this.#options.backfill.accountsReason
    if (reason !== undefined) return { collection, status: 'unknown', reason }
    return { collection, status: 'complete', completeAtSeq: Math.min(...done.map((job) => job.throughSeq)) }
  }

  #reasonOf(job: Job, pending: number): string {
    if (job.state === 'paused') return 'the backfill is paused'
    const error = this.#options.backfill.errorOf(job)
    if (error !== undefined) return `the PDS does not answer: ${error}`
    if (!job.isListed) return `the backfill is under way, with ${repositories(job.listed)} listed so far`
    return `the backfill is under way, with ${pending} of ${repositories(job.listed)} left`
  }
}

function repositories(count: number): string {
  return count === 1 ? '1 repository' : `${count} repositories`
}

/** The name of a job in one of its states. */
function nameOf({ id, state }: Job): string {
  return `${id} ${state}`
}
