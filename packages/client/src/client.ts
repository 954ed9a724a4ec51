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
import { Compression } from './compression.ts'
import { StreamError } from './errors.ts'
import type { Server } from './http.ts'
import { readHead } from './head.ts'
import { followLive } from './live.ts'
import { numberOptions } from './number-options.ts'
import { type AccountSet, type Reading, startReading } from './reading.ts'
import { defaultRetry, type RetryPolicy, withRetries } from './retry.ts'
import type { Runtime } from './runtime.ts'
import type { DownloadLimits } from './segment-parts.ts'
import type { StreamStatus } from './status.ts'
import { sweepArchive } from './sweep.ts'

export interface ClientOptions {
  /** The server's address, `https://…` (or `wss://…`). A path is kept: the methods are below it. */
  url: string
  /** Archive key; servers may ask for one for `replay` and `snapshot`. */
  apiKey?: string | undefined
  /** Default `network.social.stream`; `network.bsky.jetstream` reads any Jetstream v2 server. Not for version 1. */
  nsidPrefix?: string | undefined
  /**
   * Version of Jetstream that the server speaks. Default 2. One of version 1 has `/subscribe` alone: no archive, no key, no
   * compression and no sync events. Its events are numbered by their times in microseconds, which are also its cursors. It
   * begins with the oldest event that it has when a cursor is older, and does not say so.
   */
  jetstreamVersion?: 1 | 2 | undefined
  /**
   * Whether live messages are asked for compressed: a third of the bytes, for a few more microseconds each. A server that
   * does not compress is read as ever. Default: no.
   */
  compress?: boolean | undefined
  fetch?: typeof fetch | undefined
  /** Waiting between attempts. By default they never end. */
  retry?: Partial<RetryPolicy> | undefined
  /** Archive downloads: parts of 2 MiB, 4 under way at a time. */
  download?: Partial<DownloadLimits> | undefined
}

export interface ReadOptions extends EventFilter {
  kinds?: readonly EventKind[] | undefined
  /**
   * Identity, account and sync events come only of the accounts in this set, to which the account of each commit that comes
   * is added. A program that keeps accounts gives those that it has. Default: they come of all accounts.
   */
  seenAccounts?: AccountSet | undefined
  /** Aborting ends the iteration without an error. */
  signal?: AbortSignal | undefined
  /** Called synchronously, and must not throw. */
  onStatus?: ((status: StreamStatus) => void) | undefined
}

export interface ReplayOptions extends ReadOptions {
  /** Last seq seen. 0 or absent is everything. */
  cursor?: number | undefined
  /** Ends the iteration once everything up to and with this seq has come. Default: it never ends. */
  throughSeq?: number | undefined
  /**
   * Whether the archive is read before the subscription is asked: faster for much, and needs a key where the server wants
   * one. Default: true with a key and without a cursor.
   */
  archiveFirst?: boolean | undefined
}

export interface LiveReadOptions extends ReadOptions {
  /** Last seq seen; absent starts at the tip. Older than the server replays: ends with `CursorTooOld`. */
  cursor?: number | undefined
  /** Instead of a cursor: from the first event that the server saw then or later, as far back as it replays. */
  since?: Date | undefined
}

export interface SnapshotOptions extends ReadOptions {
  /** Only what is after this seq. */
  afterSeq?: number | undefined
  /** Only what is up to and with this seq. */
  beforeSeq?: number | undefined
}

export interface StreamClient {
  /**
   * Everything from a cursor on, then the live stream, without a gap between them. The archive is read where the
   * subscription does not reach back far enough, so a recent cursor needs no key; without a cursor and with a key it is
   * read first. Ends only at `throughSeq`, by abort or error.
   */
  replay(options?: ReplayOptions): Reading
  /** The live stream only. */
  live(options?: LiveReadOptions): Reading
  /** The archive only: sealed segments up to the tip at the start. */
  snapshot(options?: SnapshotOptions): Reading
  /** The newest seq of the server now. Undefined when it does not tell: not every Jetstream v2 server does. */
  head(options?: { signal?: AbortSignal | undefined }): Promise<number | undefined>
}

/** Cursors from here on are times in microseconds. */
const firstTimeCursor = 1e15
const defaultPrefix = 'network.social.stream'
/** Larger parts are no faster, and a client holds up to six of them. */
const defaultDownload: DownloadLimits = { partBytes: 2 * 1024 * 1024, parallel: 4 }
const leastRetry = { firstMs: 0, maxMs: 0, attemptsMax: 1, giveUpMs: 0 }
const leastDownload = { partBytes: 1, parallel: 1 }
/** Refills in a row that got nowhere before the stream is given up. */
const stallsMax = 5

/** @throws StreamError `InvalidRequest` for options that no server would take. */
export function createClient(options: ClientOptions, runtime: Runtime): StreamClient {
  const version = options.jetstreamVersion ?? 2
  if (version === 1 && (options.apiKey !== undefined || options.compress === true))
    throw invalid(
      `a server of Jetstream v1 has no ${options.apiKey === undefined ? 'compression that we read' : 'key'}`,
    )
  if (version === 1 && options.nsidPrefix !== undefined)
    throw invalid('a server of Jetstream v1 has no namespace: nsidPrefix is for version 2')
  const retry = numberOptions(leastRetry, defaultRetry, options.retry)
  const server: Server = {
    url: baseOf(options.url),
    nsidPrefix: options.nsidPrefix ?? defaultPrefix,
    version,
    apiKey: options.apiKey === undefined ? undefined : checkKey(options.apiKey),
    fetch: options.fetch ?? fetch,
    failuresHaveCause: runtime.failuresHaveCause,
    stallMs: Math.min(runtime.stallMs, retry.giveUpMs),
  }
  const limits = numberOptions(leastDownload, defaultDownload, options.download)
  const compression = new Compression(server, options.compress ?? false)
  const contextOf = (read: ReadOptions) => ({
    server,
    runtime,
    compression,
    retry,
    limits,
    total: { bytes: 0 },
    filter: checkFilter(read, version),
    signal: read.signal ?? new AbortController().signal,
    onStatus: read.onStatus ?? (() => undefined),
  })

  async function* snapshot(read: SnapshotOptions): AsyncGenerator<StreamBatch, void> {
    if (version === 1) throw withoutArchive()
    const afterSeq = checkSeq(read.afterSeq ?? 0, 'afterSeq')
    const beforeSeq = read.beforeSeq === undefined ? undefined : checkSeq(read.beforeSeq, 'beforeSeq')
    if (beforeSeq !== undefined && beforeSeq <= afterSeq) throw invalid('beforeSeq must be above afterSeq')
    for await (const batch of sweepArchive({ ...contextOf(read), afterSeq, beforeSeq }))
      yield { ...batch, live: false }
  }

  const checkCursor = (cursor: number): number => {
    if (version === 2 && cursor >= firstTimeCursor)
      throw invalid(
        `cursor ${cursor} is a time, as cursors of Jetstream v1 are: give live since: new Date(${Math.floor(cursor / 1000)})`,
      )
    return checkSeq(cursor, 'cursor')
  }

  async function* live(read: LiveReadOptions): AsyncGenerator<StreamBatch, void> {
    const cursor = read.cursor === undefined ? undefined : checkCursor(read.cursor)
    if (cursor !== undefined && read.since) throw invalid('give one of cursor and since')
    yield* followLive({ ...contextOf(read), cursor, sinceMicros: read.since && microsOf(read.since) })
  }

  async function* replay(read: ReplayOptions): AsyncGenerator<StreamBatch, void> {
    const throughSeq = read.throughSeq === undefined ? undefined : checkSeq(read.throughSeq, 'throughSeq')
    if (version === 1 && read.archiveFirst === true) throw withoutArchive()
    const batches = replayForEver(read)
    if (throughSeq === undefined) return yield* batches
    if ((read.cursor ?? 0) >= throughSeq) return
    for await (const batch of batches) {
      yield batch.cursor <= throughSeq ? batch : cutAfter(batch, throughSeq)
      if (batch.cursor >= throughSeq) return
    }
  }

  async function* replayForEver(read: ReplayOptions): AsyncGenerator<StreamBatch, void> {
    const context = contextOf(read)
    let cursor = checkCursor(read.cursor ?? 0)
    // All of a stream comes faster out of the archive.
    const expectsMore = read.throughSeq !== undefined
    let needsArchive = read.archiveFirst ?? (cursor === 0 && server.apiKey !== undefined)
    for (let stalls = 0; !context.signal.aborted;) {
      const startedAt = cursor
      if (needsArchive) {
        const sweep = sweepArchive({ ...context, afterSeq: cursor, beforeSeq: read.throughSeq })
        for (let next = await sweep.next(); ; next = await sweep.next()) {
          if (next.done) {
            cursor = Math.max(cursor, next.value)
            break
          }
          cursor = next.value.cursor
          yield { ...next.value, live: false }
        }
      }
      try {
        for await (const batch of followLive({ ...context, cursor, expectsMore })) {
          cursor = batch.cursor
          yield batch
        }
      } catch (error) {
        if (!(error instanceof StreamError) || error.code !== 'CursorTooOld') throw error
        stalls = cursor > startedAt || !needsArchive ? 0 : stalls + 1
        if (stalls >= stallsMax) {
          throw new StreamError('Stalled', `neither archive nor stream goes on from ${cursor}`, {
            cause: error,
          })
        }
        needsArchive = true
        context.onStatus({ type: 'refilling', cursor })
      }
    }
  }

  const head = ({ signal = new AbortController().signal } = {}): Promise<number | undefined> =>
    withRetries(retry, signal, () => readHead(server, signal))

  /** Shows statuses to the caller's function and to others. */
  const reading =
    <O extends ReadOptions>(read: (options: O) => AsyncGenerator<StreamBatch, void>) =>
    (options: O = {} as O): Reading =>
      // no option is required
      startReading((onStatus) => read({ ...options, onStatus }), options)

  return { replay: reading(replay), live: reading(live), snapshot: reading(snapshot), head }
}

/** The address without a slash at its end. */
function baseOf(text: string): string {
  if (typeof text !== 'string') throw invalid('give the address of a stream as url')
  const address = text.replace(/^ws/, 'http')
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw invalid(`${text} is not an http or ws address`)
  // They would be in every message that names the address.
  if (url.username !== '' || url.password !== '')
    throw invalid(
      `an address of a stream has no user name and no password: give ${url.host}, and a key as apiKey`,
    )
  if (url.search !== '' || url.hash !== '') throw invalid(`${text}: an address of a stream has no ? and no #`)
  const method = /\/(xrpc|subscribe)(\/|$)/.exec(url.pathname)
  if (method) {
    const base = `${url.origin}${url.pathname.slice(0, method.index)}`
    throw invalid(`${text} is the address of a method; give that of the server, ${base}`)
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

function checkKey(key: string): string {
  if (!/^[\x21-\x7e]+$/.test(key))
    throw invalid('the API key is empty, or has spaces or other signs that no key has')
  return key
}

/** What of the batch is up to and with `throughSeq`. */
function cutAfter({ events, gaps, live }: StreamBatch, throughSeq: number): StreamBatch {
  return {
    events: events.filter(({ seq }) => seq <= throughSeq),
    gaps: gaps.filter(({ afterSeq }) => afterSeq < throughSeq),
    cursor: throughSeq,
    live,
  }
}

function microsOf(date: Date): number {
  const ms = date.getTime()
  // Times before it would look like seqs (segment-format.md 14).
  if (!(ms * 1000 >= firstTimeCursor)) throw invalid('since must be a time after the year 2001')
  return Math.round(ms * 1000)
}

function checkSeq(value: number, name: string): number {
  if (!Number.isSafeInteger(value) || value < 0) throw invalid(`${name} must be a whole number from 0`)
  return value
}

function withoutArchive(): StreamError {
  return invalid('a server of Jetstream v1 has no archive')
}

function checkFilter({ kinds, collections, dids }: EventFilter, version: 1 | 2): EventFilter {
  for (const kind of kinds ?? []) if (!eventKinds.includes(kind)) throw invalid(`unknown kind ${kind}`)
  if (version === 1 && kinds?.includes('sync')) throw invalid('a server of Jetstream v1 sends no sync events')
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
