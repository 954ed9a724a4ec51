/**
 * Reads any server of the stream's wire (Jetstream v2): the archive, the live stream, or both as one ordered
 * iteration. This file decides what comes after what; the parts do the reading.
 *
 * What must hold: every matching event is delivered at least once and in seq order; `batch.cursor` never says more
 * than what was delivered; a slow consumer slows the server down instead of filling memory; whatever cannot be decoded
 * is reported with its seq and never holds the cursor.
 */
import { type EventFilter, type EventKind, eventKinds, isCollectionPattern, isDid } from '@tributary/protocol'
import type { StreamBatch } from './batch.ts'
import { StreamError } from './errors.ts'
import type { Server } from './http.ts'
import { followLive } from './live.ts'
import { defaultRetry, type RetryPolicy } from './retry.ts'
import type { Runtime } from './runtime.ts'
import type { DownloadLimits } from './segment-parts.ts'
import type { StreamStatus } from './status.ts'
import { sweepArchive } from './sweep.ts'

export interface ClientOptions {
  /** The server's address, `https://…` (or `wss://…`), without a path. */
  url: string
  /** Archive key; servers may ask for one for `replay` and `snapshot`. */
  apiKey?: string
  /** Default `network.social.stream`; `network.bsky.jetstream` reads any Jetstream v2 server. */
  nsidPrefix?: string
  fetch?: typeof fetch
  /** Waiting between attempts. By default they never end. */
  retry?: Partial<RetryPolicy>
  /** Archive downloads: parts of 8 MiB, 4 under way at a time. */
  download?: Partial<DownloadLimits>
}

export interface ReadOptions extends EventFilter {
  kinds?: readonly EventKind[]
  /** Aborting ends the iteration without an error. */
  signal?: AbortSignal
  /** Called synchronously, and must not throw. */
  onStatus?: (status: StreamStatus) => void
}

export interface ReplayOptions extends ReadOptions {
  /** Last seq seen. 0 or absent is everything. */
  cursor?: number
}

export interface LiveReadOptions extends ReadOptions {
  /** Last seq seen; absent starts at the tip. Older than the server replays: ends with `CursorTooOld`. */
  cursor?: number
}

export interface SnapshotOptions extends ReadOptions {
  /** Only what is after this seq. */
  afterSeq?: number
  /** Only what is up to and with this seq. */
  beforeSeq?: number
}

export interface StreamClient {
  /** The archive from a cursor, then the live stream, without a gap between them. Ends only by abort or error. */
  replay(options?: ReplayOptions): AsyncGenerator<StreamBatch, void>
  /** The live stream only. */
  live(options?: LiveReadOptions): AsyncGenerator<StreamBatch, void>
  /** The archive only: sealed segments up to the tip at the start. */
  snapshot(options?: SnapshotOptions): AsyncGenerator<StreamBatch, void>
}

const defaultPrefix = 'network.social.stream'
const defaultDownload: DownloadLimits = { partBytes: 8 * 1024 * 1024, parallel: 4 }
/** Refills in a row that got nowhere before the stream is given up. */
const stallsMax = 5

/** @throws StreamError `InvalidRequest` for options that no server would take. */
export function createClient(options: ClientOptions, runtime: Runtime): StreamClient {
  const server: Server = {
    url: originOf(options.url),
    nsidPrefix: options.nsidPrefix ?? defaultPrefix,
    apiKey: options.apiKey,
    fetch: options.fetch ?? fetch,
  }
  const retry = { ...defaultRetry, ...options.retry }
  const limits = { ...defaultDownload, ...options.download }
  const contextOf = (read: ReadOptions) => ({
    server,
    runtime,
    retry,
    limits,
    filter: checkFilter(read),
    signal: read.signal ?? new AbortController().signal,
    onStatus: read.onStatus ?? (() => undefined),
  })

  async function* snapshot(read: SnapshotOptions = {}): AsyncGenerator<StreamBatch, void> {
    const afterSeq = checkSeq(read.afterSeq ?? 0, 'afterSeq')
    const beforeSeq = read.beforeSeq === undefined ? undefined : checkSeq(read.beforeSeq, 'beforeSeq')
    if (beforeSeq !== undefined && beforeSeq <= afterSeq) throw invalid('beforeSeq must be above afterSeq')
    for await (const batch of sweepArchive({ ...contextOf(read), afterSeq, beforeSeq }))
      yield { ...batch, live: false }
  }

  async function* live(read: LiveReadOptions = {}): AsyncGenerator<StreamBatch, void> {
    const cursor = read.cursor === undefined ? undefined : checkSeq(read.cursor, 'cursor')
    yield* followLive({ ...contextOf(read), cursor })
  }

  async function* replay(read: ReplayOptions = {}): AsyncGenerator<StreamBatch, void> {
    const context = contextOf(read)
    let cursor = checkSeq(read.cursor ?? 0, 'cursor')
    for (let stalls = 0; !context.signal.aborted;) {
      const startedAt = cursor
      const sweep = sweepArchive({ ...context, afterSeq: cursor, beforeSeq: undefined })
      for (let next = await sweep.next(); ; next = await sweep.next()) {
        if (next.done) {
          cursor = Math.max(cursor, next.value)
          break
        }
        cursor = next.value.cursor
        yield { ...next.value, live: false }
      }
      try {
        for await (const batch of followLive({ ...context, cursor })) {
          cursor = batch.cursor
          yield batch
        }
      } catch (error) {
        if (!(error instanceof StreamError) || error.code !== 'CursorTooOld') throw error
        stalls = cursor > startedAt ? 0 : stalls + 1
        if (stalls >= stallsMax) {
          throw new StreamError('Stalled', `neither archive nor stream goes on from ${cursor}`, {
            cause: error,
          })
        }
        context.onStatus({ type: 'refilling', cursor })
      }
    }
  }

  return { replay, live, snapshot }
}

function originOf(text: string): string {
  const url = URL.parse(text.replace(/^ws/, 'http'))
  if (url === null || !/^https?:$/.test(url.protocol)) throw invalid(`${text} is not an http or ws address`)
  return url.origin
}

function checkSeq(value: number, name: string): number {
  if (!Number.isSafeInteger(value) || value < 0) throw invalid(`${name} must be a whole number from 0`)
  return value
}

function checkFilter({ kinds, collections, dids }: EventFilter): EventFilter {
  for (const kind of kinds ?? []) if (!eventKinds.includes(kind)) throw invalid(`unknown kind ${kind}`)
  for (const did of dids ?? []) if (!isDid(did)) throw invalid(`${did} is not a DID`)
  for (const pattern of collections ?? []) {
    if (!isCollectionPattern(pattern))
      throw invalid(`${pattern} is neither a collection nor a pattern like org.impact.*`)
  }
  if (collections?.length && kinds?.length && !kinds.includes('commit')) {
    throw invalid('collections select commits, so kinds must include commit')
  }
  return { ...(kinds && { kinds }), ...(collections && { collections }), ...(dids && { dids }) }
}

function invalid(message: string): StreamError {
  return new StreamError('InvalidRequest', message)
}
