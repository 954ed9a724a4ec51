import { normalizeHost } from '@tributary/identity'
import type { Clock } from '@tributary/lanes'
import type { Logger } from '@tributary/telemetry'
import type { CommitAndSync, StateDatabase } from '../state-database.ts'
import type { BackfillStore } from './backfill-store.ts'
import { HostAwayError, type HostRequests } from './host-requests.ts'
import { hasCome, retryWait } from './retry-wait.ts'
import {
  BadAnswerError,
  cursorParam,
  isAnswerFault,
  nextCursor,
  pageBounds,
  readListHosts,
} from './sync-answers.ts'

export interface HostListOptions {
  database: StateDatabase
  store: BackfillStore
  requests: HostRequests
  /** Origin of the relay. */
  relayUrl: string
  allowedPrivateHosts: readonly string[]
  /** Begins the job of a host that was added, within the transaction that adds it. */
  onAdded: (host: string) => void
  /** What an answer gives that was asked for; a defect of ours on the way costs that answer. */
  asked: <T>(ask: () => Promise<T>) => Promise<T>
  logger: Logger
  clock: Clock
  random: () => number
  commit: CommitAndSync
}

/** How the list of approved hosts could be had last. */
export type HostListing = { is: 'unknown'; error: string } | { is: 'known'; atMs: number }

/** How often the relay is asked which hosts it reads; sooner after a failure. */
const everyMs = 60_000
const retryMs = { first: 1000, max: 60_000 }
/** Hosts that are taken note of in one transaction. */
const hostsPerTurn = 200
/** Hosts of a relay beyond this are left out, so that a list without end is none. */
const hostsMax = 10_000
/** Pages of hosts that a relay may list. With more it could name new cursors without end. */
const pagesMax = 100

/** The PDSs that the relay reads. Begins the jobs of those that are new, and ends the jobs of those that are gone. */
export class HostList {
  readonly #options: HostListOptions
  #approved: ReadonlySet<string>
  #listing: HostListing = { is: 'unknown', error: 'the relay was not asked yet' }
  #dueMs = 0
  #failures = 0
  #isAsking = false
  /** Whether no PDS was left out of the list last. */
  #isWhole = true

  constructor(options: HostListOptions) {
    this.#options = options
    this.#approved = new Set(options.store.hosts())
  }

  /** Hosts that the relay reads. */
  get approved(): ReadonlySet<string> {
    return this.#approved
  }

  get listing(): HostListing {
    return this.#listing
  }

  /** Whether it is time to ask the relay. */
  get isDue(): boolean {
    return hasCome(this.#dueMs, this.#nowMs) && !this.#isAsking
  }

  get #nowMs(): number {
    return this.#options.clock.nowMs()
  }

  /** Asks the relay. @throws what is a fault of the disk. */
  async ask(): Promise<void> {
    const { asked, logger, random } = this.#options
    this.#isAsking = true
    try {
      const hosts = await asked(() => this.#list())
      await this.#follow(hosts)
      this.#approved = hosts
      this.#listing = { is: 'known', atMs: this.#nowMs }
      this.#failures = 0
      this.#dueMs = this.#nowMs + everyMs
    } catch (error) {
      if (!isAnswerFault(error)) throw error
      if (this.#listing.is === 'known' || this.#failures === 0)
        logger.warn({ error: error.message }, 'the relay does not say which PDSs it reads')
      this.#listing = { is: 'unknown', error: error.message }
      const afterMs = error instanceof HostAwayError ? error.retryAfterMs : undefined
      this.#dueMs = this.#nowMs + retryWait(this.#failures++, retryMs, afterMs, random)
    } finally {
      this.#isAsking = false
    }
  }

  async #follow(hosts: ReadonlySet<string>): Promise<void> {
    const { database, store, onAdded, logger, commit } = this.#options
    const known = new Set(store.hosts())
    const added = [...hosts].filter((host) => !known.has(host))
    const removed = [...known.difference(hosts)]
    for (let from = 0; from < removed.length; from += hostsPerTurn)
      await commit(database, () => store.removeHosts(removed.slice(from, from + hostsPerTurn), this.#nowMs))
    for (let from = 0; from < added.length; from += hostsPerTurn) {
      const some = added.slice(from, from + hostsPerTurn)
      await commit(database, () => {
        store.addHosts(some, this.#nowMs)
        for (const host of some) onAdded(host)
      })
    }
    if (added.length > 0)
      logger.info({ hosts: added.slice(0, 20), count: added.length }, 'PDSs are backfilled')
  }

  async #list(): Promise<Set<string>> {
    const { requests, relayUrl, allowedPrivateHosts, logger } = this.#options
    const hosts = new Set<string>()
    let isWhole = false
    for (let cursor = '', pages = 0; hosts.size < hostsMax;) {
      if (++pages > pagesMax) throw new BadAnswerError(`lists its hosts on more than ${pagesMax} pages`)
      const answer = await requests.ask(relayUrl, `listHosts?limit=1000${cursorParam(cursor)}`, pageBounds)
      const page = readListHosts(answer)
      for (const { hostname, isBanned } of page.rows) {
        const host = normalizeHost(hostname, { allowedPrivateHosts })
        if (!isBanned && 'url' in host) hosts.add(host.host)
      }
      const next = nextCursor(page, cursor)
      isWhole = next === undefined
      if (next === undefined) break
      cursor = next
    }
    if (!isWhole && this.#isWhole)
      logger.warn({ hostsMax }, 'the relay reads too many PDSs: not all are backfilled')
    this.#isWhole = isWhole
    return hosts
  }
}
