/**
 * Reads a relay's firehose and turns it into rows: verify, drop what is known already, keep what is watched, append.
 *
 * Always holds: events of one DID are done in order; the saved position at the relay never passes an event that is not
 * done, or whose rows are not durable; an event that comes again, after a restart of ours or of the relay, gives no
 * second row. Bad input is counted and skipped, and never holds up what is behind it.
 * Deliberately elsewhere: sockets and retries (`RelayConnection`), keys (`Verifier`), what is news (`EventFold`).
 */
import type { IdentityError, IdentityResolver } from '@tributary/identity'
import { type Did, isPlcOrWeb } from '@tributary/protocol'
import type { Message, RefusalReason } from '@tributary/repo-verify'
import type { Row } from '@tributary/segment'
import type { EventMessage, Notice } from '@tributary/subscription'
import type { NewRow } from '../archive/archive.ts'
import { EventFold } from './event-fold.ts'
import type { DroppedOpReason } from './event-rows.ts'
import { Lanes } from './lanes.ts'
import { Progress } from './progress.ts'
import { type ConnectionState, RelayConnection } from './relay-connection.ts'
import type { RepoStates, UpstreamPosition } from './repo-states.ts'
import { type UpstreamItem, type Verdict, Verifier } from './verifier.ts'
import { noteWritten } from './written-rows.ts'

/** Why an event of the relay gives no row. Also a metric label, so the set stays small and closed. */
export type EventRefusal =
  | RefusalReason
  /** The revision is not newer than what is stored: a repeat, or late. */
  | 'stale-rev'
  /** The same identity, account or sync event as the last one of its account. */
  | 'repeat'
  | 'seq-not-increasing'
  | 'unsupported-did'
  /** The account's document could not be had, or too much waited for it. */
  | 'identity-unavailable'

/** What an operator should see. */
export type IngestNotice =
  /** The relay no longer has events that we have not seen. */
  | { is: 'outdated-cursor'; cursor: number; message: string }
  | { is: 'numbering-restarted'; cursor: number; epoch: number }
  /** The relay's numbering began again too soon after the last time; its position is tried again later. */
  | { is: 'numbering-restart-held'; cursor: number }
  | { is: 'relay-error'; error: string; message: string }
  | { is: 'unresolved'; did: Did; error: IdentityError }

export interface IngestObserver {
  onEvent(kind: Message['kind']): void
  onRefused(reason: EventRefusal, did: string | undefined, detail: string): void
  onOpDropped(reason: DroppedOpReason, did: string): void
  /** A commit did not continue what is stored of its repository. */
  onDiscontinuity(did: string): void
  onState(state: ConnectionState): void
  onNotice(notice: IngestNotice): void
}

/** Where rows go. */
export interface RowSink {
  readonly appendedSeq: number
  /** More than enough is under way: the reader waits for `onRoom`. */
  readonly isFull: boolean
  onRoom(listener: () => void): void
  append(row: NewRow, upstream: { seq: number; epoch: number }): number
  /** Resolves when every row appended so far is durable. */
  whenDurable(): Promise<void>
  /** The saved states account for rows up to `seq`. */
  stateCovers(seq: number): void
  /** Microseconds since 1970 for rows that are seen now; never goes back. */
  witnessedNow(): number
}

export interface IngestOptions {
  /** The relay, `ws:` or `wss:`, without a path. */
  relayUrl: string
  /** With a resolver every signature, operation and tree is checked; without one the relay is trusted. */
  resolver: IdentityResolver | undefined
  isWatched: (collection: string) => boolean
  states: RepoStates
  sink: RowSink
  /** Rows that the saved states do not account for: their events come again. */
  unapplied: readonly Row[]
  observer: IngestObserver
  reconnectMs?: { first: number; max: number }
  pingMs?: number
  /** Milliseconds between saves of the states and the position. */
  saveMs?: number
}

interface Item extends UpstreamItem {
  readonly bytes: number
  /** Of the numbering that the event belongs to. */
  readonly progress: Progress
}

const laneLimits = { eventsPerDid: 1000, bytesPerDid: 10_000_000 }
/** Bytes of events that wait for identities; above it the relay waits. */
const waitingBytesMax = 64_000_000
/** A relay whose numbering begins again more often than this is not followed. */
const restartMsMin = 3_600_000
/** Changed states above which a save does not wait for its time. */
const dirtyStatesMax = 10_000

export class Ingest {
  readonly #options: IngestOptions
  readonly #observer: IngestObserver
  readonly #states: RepoStates
  readonly #connection: RelayConnection
  readonly #verifier: Verifier
  readonly #fold: EventFold
  readonly #lanes: Lanes<Item>
  readonly #stop = new AbortController()
  #epoch: Pick<UpstreamPosition, 'epoch' | 'epochBeganMs'>
  #progress: Progress
  #running: Promise<void> | undefined
  #saving: Promise<void> | undefined
  #saveTimer: NodeJS.Timeout | undefined

  constructor(options: IngestOptions) {
    const { states, sink, observer, resolver } = options
    this.#options = options
    this.#observer = observer
    this.#states = states
    noteWritten(states, options.unapplied)
    const { position } = states
    const isSameRelay = position?.relayUrl === options.relayUrl
    this.#epoch = isSameRelay ? position : { epoch: (position?.epoch ?? -1) + 1, epochBeganMs: 0 }
    this.#progress = new Progress(isSameRelay ? position.cursor : 0)
    this.#verifier = new Verifier({
      resolver,
      signal: this.#stop.signal,
      onUnresolved: (did, error) => observer.onNotice({ is: 'unresolved', did, error }),
    })
    this.#fold = new EventFold({
      ...options,
      needsPrevData: this.#verifier.isStrict,
      epoch: () => this.#epoch.epoch,
      append: (row, seq) => sink.append(row, { seq, epoch: this.#epoch.epoch }),
      witnessedNow: () => sink.witnessedNow(),
      onOpDropped: (reason, did) => observer.onOpDropped(reason, did),
      onDiscontinuity: (did) => observer.onDiscontinuity(did),
    })
    this.#lanes = new Lanes(laneLimits, {
      run: (item) => this.#do(item),
      refuse: (item) =>
        this.#settle(item, {
          ok: false,
          reason: 'identity-unavailable',
          detail: 'too much waits for the account',
        }),
      onProgress: () => this.#resumeIfRoom(),
    })
    this.#connection = new RelayConnection({
      url: options.relayUrl,
      // Events that are begun and not done are here in memory, so a reconnect does not ask for them again.
      cursor: () => this.#progress.newest,
      onEvent: (message, size) => this.#onMessage(message, size),
      onNotice: (notice) => this.#onNotice(notice),
      onRenumbered: () => this.#restartNumbering(),
      onState: (state) => observer.onState(state),
      reconnectMs: options.reconnectMs ?? { first: 1000, max: 60_000 },
      pingMs: options.pingMs ?? 30_000,
    })
    sink.onRoom(() => this.#resumeIfRoom())
  }

  /** Every event of the relay up to here is done. */
  get cursor(): number {
    return this.#progress.done
  }

  /** Accounts whose events wait for an identity. */
  get waitingAccounts(): number {
    return this.#lanes.size
  }

  start(): void {
    this.#running = this.#connection.run(this.#stop.signal)
    this.#saveTimer = setInterval(() => this.#saveIfChanged(), this.#options.saveMs ?? 1000)
  }

  /** Ends the connection and saves the position. What waits for an identity comes again from the relay. */
  async close(): Promise<void> {
    clearInterval(this.#saveTimer)
    this.#stop.abort()
    await this.#running
    await this.#saving
    await this.#save()
  }

  #onMessage(message: EventMessage, size: number): void {
    if (!message.ok) {
      this.#observer.onRefused(message.reason, undefined, message.detail)
      return
    }
    if (message.kind === 'unknown') {
      const { upstreamSeq } = message
      if (upstreamSeq !== undefined && this.#begins(upstreamSeq)) this.#progress.finish(upstreamSeq)
      this.#observer.onEvent(message.kind)
      return
    }
    if (!this.#begins(message.upstreamSeq)) return
    // What waits must not keep the socket's whole buffer alive.
    if (this.#lanes.has(message.did)) message.bytes = Buffer.from(message.bytes)
    const progress = this.#progress
    const item: Item = { message, bytes: size, receivedMs: Date.now(), progress }
    this.#lanes.push(message.did, item)
    if (this.#isFull()) this.#connection.pause()
  }

  /** Takes note of a seq. False when the event is not to be read, because it came before. */
  #begins(upstreamSeq: number): boolean {
    const { newest } = this.#progress
    if (upstreamSeq <= newest) {
      this.#observer.onRefused('seq-not-increasing', undefined, `${upstreamSeq} after ${newest}`)
      return false
    }
    this.#progress.begin(upstreamSeq)
    return true
  }

  #onNotice(notice: Notice): void {
    this.#observer.onEvent(notice.kind)
    const message = notice.message ?? ''
    if (notice.kind === 'info' && notice.name === 'OutdatedCursor')
      this.#observer.onNotice({ is: 'outdated-cursor', cursor: this.#progress.newest, message })
    else if (notice.kind === 'error' && notice.error !== 'FutureCursor')
      this.#observer.onNotice({ is: 'relay-error', error: notice.error, message })
  }

  /** The relay's numbers lie below our position: it began again, and so do we, from its oldest event. */
  #restartNumbering(): void {
    const cursor = this.#progress.newest
    const nowMs = Date.now()
    if (nowMs - this.#epoch.epochBeganMs < restartMsMin) {
      this.#observer.onNotice({ is: 'numbering-restart-held', cursor })
    } else {
      this.#epoch = { epoch: this.#epoch.epoch + 1, epochBeganMs: nowMs }
      this.#progress = new Progress(0)
      this.#observer.onNotice({ is: 'numbering-restarted', cursor, epoch: this.#epoch.epoch })
    }
  }

  /** Verifies and applies one event. A promise when its identity has to be waited for. */
  #do(item: Item): Promise<void> | undefined {
    const { did, upstreamSeq } = item.message
    if (!isPlcOrWeb(did)) {
      this.#observer.onRefused('unsupported-did', did, 'the account is neither did:plc nor did:web')
      item.progress.finish(upstreamSeq)
      return undefined
    }
    const verdict = this.#verifier.check(item)
    if (verdict instanceof Promise) return this.#settleLater(item, verdict)
    this.#settle(item, verdict)
    return undefined
  }

  async #settleLater(item: Item, checking: Promise<Verdict | undefined>): Promise<void> {
    const verdict = await checking
    if (verdict) this.#settle(item, verdict)
  }

  #settle(item: Item, verdict: Verdict): void {
    const { message } = item
    const { did, upstreamSeq } = message
    if (verdict.ok) {
      this.#observer.onEvent(verdict.kind)
      this.#connection.markHealthy()
      const repeated = this.#fold.apply(verdict, message)
      if (repeated) this.#observer.onRefused(repeated.reason, did, repeated.detail)
    } else {
      if (verdict.reason === 'identity-unavailable') this.#fold.markIncomplete(did)
      this.#observer.onRefused(verdict.reason, did, verdict.detail)
    }
    item.progress.finish(upstreamSeq)
    if (this.#states.dirtyCount > dirtyStatesMax) this.#saveIfChanged()
  }

  #isFull(): boolean {
    return this.#lanes.bytes > waitingBytesMax || this.#options.sink.isFull
  }

  #resumeIfRoom(): void {
    if (!this.#isFull()) this.#connection.resume()
  }

  #saveIfChanged(): void {
    if (this.#saving) return
    const saved = this.#states.position
    const isSaved = saved?.cursor === this.#progress.done && saved.epoch === this.#epoch.epoch
    if (isSaved && this.#states.dirtyCount === 0) return
    this.#saving = this.#save().finally(() => {
      this.#saving = undefined
    })
  }

  async #save(): Promise<void> {
    const { sink, relayUrl } = this.#options
    const appliedSeq = sink.appendedSeq
    const { epoch, epochBeganMs } = this.#epoch
    const position = { relayUrl, epoch, epochBeganMs, cursor: this.#progress.done }
    await this.#states.save(position, appliedSeq, sink.whenDurable())
    sink.stateCovers(appliedSeq)
  }
}
