/**
 * What an iteration of the client gives besides its batches: counts of what came, what it is doing as an iteration of its
 * own, and the choice of accounts whose markers are wanted.
 */
import type { ClientEvent, StreamBatch } from './batch.ts'
import { deferred } from './deferred.ts'
import { StreamError } from './errors.ts'
import type { StreamStatus } from './status.ts'

/** Statuses that wait for a reader. Of a slower one the oldest are lost. */
const waitingStatusesMax = 1000

/** Counts since the iteration began, and where it is. */
export interface ReadStats {
  /** Events that were given out. */
  events: number
  /** Gaps that were given out, each for one event or many. */
  gaps: number
  /** Bytes of the archive. */
  archiveBytes: number
  /** Connections to the live stream that were opened. */
  connections: number
  /** Failures that were waited out. */
  failures: number
  /** The cursor of the newest batch. */
  cursor: number | undefined
  /** `archive` and `live`: what the newest status is about. `waiting`: not connected, after a failure. */
  state: 'starting' | 'archive' | 'live' | 'waiting' | 'ended'
  /** Milliseconds from the newest live event to the moment when it was given out. Undefined before the first. */
  lagMs: number | undefined
}

/** Accounts that somebody knows, such as a `Set`. */
export interface AccountSet {
  has(did: string): boolean
  add(did: string): unknown
}

/** Batches, in a `for await` loop. It reads nothing before the loop begins. */
export interface Reading extends AsyncGenerator<StreamBatch, void> {
  stats(): ReadStats
  /**
   * What the iteration is doing, from now on until it ends. At most 1000 statuses wait for a slow reader: the oldest are
   * left out then.
   */
  statuses(): AsyncGenerator<StreamStatus, void>
}

/** `read` is called once, with where its statuses go. */
export function startReading(
  read: (onStatus: (status: StreamStatus) => void) => AsyncGenerator<StreamBatch, void>,
  options: { onStatus?: ((status: StreamStatus) => void) | undefined; seenAccounts?: AccountSet | undefined },
): Reading {
  const stats: ReadStats = {
    events: 0,
    gaps: 0,
    archiveBytes: 0,
    connections: 0,
    failures: 0,
    cursor: undefined,
    state: 'starting',
    lagMs: undefined,
  }
  const readers = new Set<StatusQueue>()
  const onStatus = (status: StreamStatus): void => {
    count(stats, status)
    options.onStatus?.(status)
    for (const reader of readers) reader.push(status)
  }

  const end = (): void => {
    stats.state = 'ended'
    for (const reader of readers) reader.end()
  }

  async function* batches(): AsyncGenerator<StreamBatch, void> {
    try {
      for await (const batch of read(onStatus)) {
        const { seenAccounts } = options
        const events = seenAccounts
          ? batch.events.filter((event) => isOfSeen(event, seenAccounts))
          : batch.events
        stats.events += events.length
        stats.gaps += batch.gaps.length
        stats.cursor = batch.cursor
        if (batch.live) stats.lagMs = lagOf(events) ?? stats.lagMs
        yield seenAccounts ? { ...batch, events } : batch
      }
    } finally {
      end()
    }
  }

  async function* statuses(): AsyncGenerator<StreamStatus, void> {
    if (stats.state === 'ended') return
    const queue = new StatusQueue()
    readers.add(queue)
    try {
      yield* queue.take()
    } finally {
      readers.delete(queue)
    }
  }

  const reading = batches()
  const leave = reading.return.bind(reading)
  return Object.assign(reading, {
    // A generator that has not begun ends without a word.
    return: async () => {
      end()
      return await leave()
    },
    stats: () => ({ ...stats }),
    statuses,
  })
}

/** A commit makes its account a known one. Events of other kinds are wanted of those only. */
function isOfSeen(event: ClientEvent, accounts: AccountSet): boolean {
  try {
    if (event.kind !== 'commit') return accounts.has(event.did)
    accounts.add(event.did)
  } catch (error) {
    // A malformed event throws again when its reader asks for its fields.
    if (!(error instanceof StreamError)) throw error
  }
  return true
}

function lagOf(events: readonly ClientEvent[]): number | undefined {
  const ms = Date.parse(events.at(-1)?.time ?? '')
  return Number.isNaN(ms) ? undefined : Math.max(0, Date.now() - ms)
}

function count(stats: ReadStats, status: StreamStatus): void {
  switch (status.type) {
    case 'downloading':
      stats.archiveBytes = status.bytes
      return
    case 'planning':
      stats.state = 'archive'
      return
    case 'live':
      stats.connections++
      stats.state = 'live'
      return
    case 'reconnecting':
      stats.failures++
      stats.state = 'waiting'
      return
    default:
  }
}

/** Statuses for one reader. */
class StatusQueue {
  readonly #waiting: StreamStatus[] = []
  #hasEnded = false
  #changed = deferred()

  push(status: StreamStatus): void {
    if (this.#waiting.push(status) > waitingStatusesMax) this.#waiting.shift()
    this.#changed.resolve()
  }

  end(): void {
    this.#hasEnded = true
    this.#changed.resolve()
  }

  async *take(): AsyncGenerator<StreamStatus, void> {
    for (;;) {
      const next = this.#waiting.shift()
      if (next !== undefined) yield next
      else if (this.#hasEnded) return
      else {
        this.#changed = deferred()
        await this.#changed.promise
      }
    }
  }
}
