/**
 * Reads a relay's firehose and turns it into rows: verify, drop what is known already, keep what is watched, append.
 *
 * Always holds: events of one DID are done in order; the saved position at the relay never passes an event that is not
 * done, or whose rows are not durable; an event that comes again, after a restart of ours or of the relay, gives no
 * second row. Bad input is counted and skipped, and never holds up what comes after it. An error that is thrown while one
 * event is handled costs only that event.
 * Deliberately elsewhere: sockets and retries (`RelayConnection`), keys and verdicts (`SignedEvents`), what is news (`EventFold`).
 */
import { isStorageFault } from '@tributary/event-log'
import type { IdentityResolver } from '@tributary/identity'
import { Lanes, systemClock, type LaneWork, type Outcome, type RepeatingClock } from '@tributary/lanes'
import { type Did, isPlcOrWeb } from '@tributary/protocol'
import { isSigned } from '@tributary/repo-verify'
import type { Row } from '@tributary/segment'
import type { EventMessage, Notice } from '@tributary/subscription'
import type { Archive } from '../archive/archive.ts'
import type { WatchPolicy } from '../policy/watched-collections.ts'
import type { StreamVerification, Verdict } from '../verify/verification.ts'
import { trustWatched } from '../verify/verified.ts'
import { EventFold, type Marker } from './event-fold.ts'
import type { EventRefusal, IngestObserver } from './ingest-observer.ts'
import { Progress } from './progress.ts'
import { RelayConnection, type RelayConnectionOptions } from './relay-connection.ts'
import { isMarker, isTakedownEvent, Upstream } from './relay-event.ts'
import type { AnyEvent, EventLane, RefillEvent, RelayEvent } from './relay-event.ts'
import { Refills } from './refills.ts'
import type { RepoStates, UpstreamPosition } from './repo-states.ts'
import { SignedEvents } from './signed-events.ts'
import { noteBackfilled, noteWritten } from './written-rows.ts'

export interface IngestOptions {
  /** The relay, `ws:` or `wss:`, without a path. */
  relayUrl: string
  /** With it every signature, operation and tree is checked; without it the relay is trusted. The ingest closes it. */
  checks: { resolver: IdentityResolver; verification: StreamVerification } | undefined
  watched: WatchPolicy
  states: RepoStates
  /** Where rows go. */
  sink: Pick<
    Archive,
    | 'append'
    | 'appendedSeq'
    | 'askForRoom'
    | 'blockSeq'
    | 'onRoom'
    | 'stateSaved'
    | 'whenDurable'
    | 'witnessedNow'
  >
  /** Rows that the saved states do not account for: their events come again. */
  unapplied: readonly Row[]
  /** The same for rows of backfills, which go on after them. */
  unappliedOfBackfill: readonly Row[]
  observer: IngestObserver
  reconnectMs?: { first: number; max: number }
  pingMs?: number
  /** Milliseconds between saves of the states and the position. */
  saveMs?: number
  /** Default: that of the machine. */
  clock?: RepeatingClock
  /** Rows of a repository that are written in one turn of the event loop. Default 64. */
  refillRows?: number
  /** A random number, at least 0 and below 1, by which waits for documents differ. Default: `Math.random`. */
  random?: () => number
  /** How the relay is read. Default: over the network. */
  connect?: (options: RelayConnectionOptions) => RelayReader
}

/** Reads the relay until it is told to end, whatever comes between. */
export type RelayReader = Pick<RelayConnection, 'run' | 'markHealthy' | 'pause' | 'resume'>

const megabyte = 1024 * 1024
const laneLimits = {
  eventsPerLane: 1000,
  bytesPerLane: 10 * megabyte,
  bytesPerSource: Infinity,
  bytes: Infinity,
  bytesAlways: 0,
  // Where all accounts are new, they come faster than their documents can be read.
  lanesPerSource: { high: 256, low: 128 },
  soonMs: 2000,
  // All accounts come from one relay, so none of them may stop it.
  crowded: { share: Infinity, msMax: 0, everyMs: 0 },
}
/** Bytes that are being verified above which the relay is not read, and below which it is again. */
const verifyBytes = { high: 2 * megabyte, low: megabyte }
/** Most bytes of events that wait for identities. Above it the events that have waited longest are left out. */
const waitingBytesMax = 64 * megabyte
/** How long a takedown waits for events before it that lack a DID document. The archive would lose their rows anyway. */
const takedownWaitMsMax = 10_000
/** A relay whose numbering begins again more often than this is not followed. */
const restartMsMin = 3_600_000
/** Changed states above which a save does not wait for its time. */
const dirtyStatesMax = 10_000

export class Ingest {
  readonly #options: IngestOptions
  readonly #observer: IngestObserver
  readonly #states: RepoStates
  readonly #clock: RepeatingClock
  readonly #connection: RelayReader
  readonly #signed: SignedEvents | undefined
  readonly #fold: EventFold
  readonly #upstream = new Upstream()
  /** Accounts with a takedown that is archived and was not saved before a stop. Another relay may not send it again. */
  readonly #takenDown: ReadonlySet<string>
  readonly #lanes: Lanes<Upstream, AnyEvent>
  readonly #refills: Refills
  /** Accounts with a takedown for which `#giveUpBefore` will be called. */
  readonly #boundWaits = new Set<Did>()
  readonly #stop = new AbortController()
  #newestTime: string | undefined
  /** The relay that was read before this one; undefined when it is the same. */
  readonly #relayBefore: string | undefined
  #epoch: Pick<UpstreamPosition, 'epoch' | 'epochBeganMs'>
  #progress: Progress
  /** Too many accounts wait for documents that should come soon. */
  #areManyWaiting = false
  /** Too much is being verified. */
  #isPressed = false
  #running: Promise<void> | undefined
  #saving: Promise<void> | undefined
  #saveTimer: Disposable | undefined

  constructor(options: IngestOptions) {
    const { states, sink, observer, checks, clock = systemClock } = options
    this.#options = options
    this.#clock = clock
    this.#observer = observer
    this.#states = states
    const unapplied = noteWritten(states, options.unapplied)
    noteBackfilled(states, options.unappliedOfBackfill, unapplied)
    this.#takenDown = unapplied.takenDown
    const { position } = states
    const isSameRelay = position?.relayUrl === options.relayUrl
    this.#relayBefore = isSameRelay ? undefined : position?.relayUrl
    this.#epoch = isSameRelay ? position : { epoch: (position?.epoch ?? -1) + 1, epochBeganMs: 0 }
    this.#progress = new Progress(isSameRelay ? position.cursor : 0)
    this.#fold = new EventFold({
      ...options,
      needsPrevData: checks !== undefined,
      append: (row, seq) => sink.append(row, { seq, epoch: this.#epoch.epoch }),
      witnessedNow: () => sink.witnessedNow(),
      onOpDropped: (reason, did) => observer.onOpDropped(reason, did),
      onDiscontinuity: (did) => observer.onDiscontinuity(did),
      onTakedown: (did) => observer.onTakedown?.(did),
      onActive: (did) => observer.onActive?.(did),
    })
    const work: LaneWork<Upstream, AnyEvent> = {
      start: (event, lane) =>
        'refill' in event
          ? this.#stepRefill(event, lane)
          : (this.#guarded(event, () => this.#start(event, lane)) ?? 'done'),
      onFull: (event, lane) => this.#turnAway(event, lane),
      onPaused: (_, isPaused) => {
        this.#areManyWaiting = isPaused
        this.#checkRoom()
      },
    }
    this.#lanes = new Lanes(laneLimits, work, clock)
    this.#refills = new Refills({
      lanes: this.#lanes,
      upstream: this.#upstream,
      clock,
      states,
      watched: options.watched,
      append: (row) => void sink.append(row, { seq: 0, epoch: this.#epoch.epoch, isOfBackfill: true }),
      hasRoom: () => this.hasRoom,
      witnessedNow: () => sink.witnessedNow(),
      onRecordDropped: (reason, did) => observer.onOpDropped(reason, did),
      ...(options.refillRows !== undefined && { rowsPerTurn: options.refillRows }),
    })
    this.#signed =
      checks &&
      new SignedEvents({
        ...checks,
        lanes: this.#lanes,
        watched: options.watched,
        clock,
        random: options.random,
        onVerdict: (event, verdict) => {
          this.#guarded(event, () => this.#settle(event, verdict))
        },
        onHandled: () => this.#checkRoom(),
        onUnresolved: (did, error) => observer.onNotice({ is: 'unresolved', did, error }),
        onDefect: (event, error) => this.#noteDefect(event, error),
      })
    const { connect = (reading) => new RelayConnection(reading) } = options
    this.#connection = connect({
      url: options.relayUrl,
      // Events that are begun and not done are here in memory, so a reconnect does not ask for them again.
      cursor: () => this.#progress.newest,
      onEvent: (message) => this.#onMessage(message),
      onNotice: (notice) => this.#onNotice(notice),
      onDefect: (error, bytes) => {
        if (isStorageFault(error)) throw error
        observer.onNotice({ is: 'internal-error', error, bytes })
        observer.onRefused('internal-error', undefined, 'a defect of this stream')
      },
      onRenumbered: () => this.#restartNumbering(),
      onState: (state) => observer.onState(state),
      reconnectMs: options.reconnectMs ?? { first: 1000, max: 60_000 },
      pingMs: options.pingMs ?? 30_000,
    })
    sink.onRoom(() => this.#checkRoom())
  }

  /** Every event of the relay up to here is done. */
  get cursor(): number {
    return this.#progress.done
  }

  /** When the newest event of the relay was made, as its host says. Undefined until one has come. */
  get newestTime(): string | undefined {
    return this.#newestTime
  }

  /** Accounts whose events wait for an identity. */
  get waitingAccounts(): number {
    return this.#lanes.depth().lanes
  }

  /** Milliseconds that verifying threads have worked, all together. */
  get verifyBusyMs(): number {
    return this.#options.checks?.verification.busyMs ?? 0
  }

  start(): void {
    const before = this.#relayBefore
    if (before !== undefined)
      this.#observer.onNotice({ is: 'relay-changed', before, now: this.#options.relayUrl })
    for (const did of this.#takenDown) this.#observer.onTakedown?.(did)
    this.#running = this.#connection.run(this.#stop.signal)
    this.#saveTimer = this.#clock.every(this.#options.saveMs ?? 1000, () => this.#saveIfChanged())
  }

  /** Ends the connection and saves the position. What waits for an identity comes again from the relay. */
  async close(): Promise<void> {
    this.#saveTimer?.[Symbol.dispose]()
    this.#stop.abort()
    this.#lanes.close()
    await this.#running
    await this.#options.checks?.verification.close()
    await this.#saving
    await this.#save()
  }

  /** Whether there is room for more rows. */
  get hasRoom(): boolean {
    return this.#options.sink.askForRoom()
  }

  /** As `Refills.write` does. Does not settle once the ingest is closed. */
  async refill(...wish: Parameters<Refills['write']>): ReturnType<Refills['write']> {
    return await this.#refills.write(...wish)
  }

  #stepRefill(event: RefillEvent, lane: EventLane): Outcome {
    const outcome = this.#refills.step(event, lane)
    if (outcome === 'done' && this.#states.dirtyCount > dirtyStatesMax) this.#saveIfChanged()
    return outcome
  }

  /**
   * A lane has no room for an event. An `#identity` or `#account` is held all the same, in the place of other events of the
   * lane: otherwise an account that fills its lane would stay visible after its takedown.
   */
  #turnAway(event: AnyEvent, lane: EventLane): void {
    const lanes = this.#lanes
    const makeRoom = (mayGo: (event: AnyEvent) => boolean): number => lanes.makeRoom(lane, mayGo)
    // Where nothing but markers waits, the newest #account says how the account is.
    const newest = lane.waiting.findLast((other) => !('refill' in other) && other.message.kind === 'account')
    const isFree =
      isMarker(event) && (makeRoom((other) => !isMarker(other)) || makeRoom((other) => other !== newest))
    if (isFree) lanes.enter(this.#upstream, lane.did, event)
    else this.#drop(event, 'too much waits for the account, or for too long')
  }

  /** There is no room for an event. */
  #drop(event: AnyEvent, detail: string): void {
    if ('refill' in event) event.end({ is: 'no-room' })
    else this.#guarded(event, () => this.#leaveOut(event, detail))
  }

  #onMessage(message: EventMessage): void {
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
    this.#newestTime = message.time
    const event: RelayEvent = {
      source: this.#upstream,
      message,
      receivedMs: this.#clock.nowMs(),
      epoch: this.#epoch.epoch,
      progress: this.#progress,
      waitFault: undefined,
      keySinceMs: 0,
      verifiedWith: undefined,
    }
    this.#guarded(event, () => this.#lanes.enter(this.#upstream, message.did, event))
    if (isTakedownEvent(event)) this.#boundWait(message.did)
    while (this.#lanes.bytes > waitingBytesMax) {
      const dropped = this.#lanes.dropLongest()
      if (!dropped) break
      this.#drop(dropped, 'too much waits for other accounts')
    }
    this.#checkRoom()
  }

  /** A takedown of an account came. If it still waits after `takedownWaitMsMax`, the signed events before it are left out. */
  #boundWait(did: Did): void {
    if (this.#boundWaits.has(did) || !this.#upstream.lanes.has(did)) return
    this.#boundWaits.add(did)
    this.#clock.after(takedownWaitMsMax, () => this.#giveUpBefore(did))
  }

  #giveUpBefore(did: Did): void {
    this.#boundWaits.delete(did)
    const lane = this.#upstream.lanes.get(did)
    const before = new Set(lane?.waiting.slice(0, lane.waiting.findLastIndex(isTakedownEvent) + 1))
    if (lane) this.#lanes.makeRoom(lane, (event) => before.has(event) && !isMarker(event))
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
    const nowMs = this.#clock.nowMs()
    // An epoch that began far in the future tells that the clock was set back since.
    if (Math.abs(nowMs - this.#epoch.epochBeganMs) < restartMsMin) {
      this.#observer.onNotice({ is: 'numbering-restart-held', cursor })
    } else {
      this.#epoch = { epoch: this.#epoch.epoch + 1, epochBeganMs: nowMs }
      this.#progress = new Progress(0)
      this.#observer.onNotice({ is: 'numbering-restarted', cursor, epoch: this.#epoch.epoch })
    }
  }

  /** Handles an event. An error costs only that event, and undefined is returned. @throws storage faults. */
  #guarded<T>(event: RelayEvent, handle: () => T): T | undefined {
    try {
      return handle()
    } catch (error) {
      if (isStorageFault(error)) throw error
      this.#failInside(event, error)
      return undefined
    }
  }

  #failInside(event: RelayEvent, error: unknown): void {
    this.#noteDefect(event, error)
    try {
      this.#leaveOut(event, 'a defect of this stream', 'internal-error')
    } catch (again) {
      if (isStorageFault(again)) throw again
      // Leaving it out failed, too.
      this.#finish(event)
    }
  }

  #noteDefect({ message }: RelayEvent, error: unknown): void {
    const { did, upstreamSeq, bytes } = message
    this.#observer.onNotice({ is: 'internal-error', did, upstreamSeq, error, bytes })
  }

  /** Has a signed event verified as soon as the identity of its account is there. Applies any other event. */
  #start(event: RelayEvent, lane: EventLane): Outcome {
    const { message } = event
    const { did } = message
    if (!isPlcOrWeb(did)) {
      this.#observer.onRefused('unsupported-did', did, 'the account is neither did:plc nor did:web', message)
      this.#finish(event)
      return 'done'
    }
    if (event.waitFault) {
      const isOurs = event.waitFault === 'internal-error'
      const detail = isOurs ? 'a defect of this stream' : 'the account could not be resolved'
      this.#leaveOut(event, detail, event.waitFault)
      return 'done'
    }
    if (!isSigned(message)) {
      return lane.away > 0 ? 'after-those-away' : this.#applyMarker(event, message)
    }
    if (!this.#signed) {
      const isWatched = (collection: string): boolean => this.#options.watched.has(collection)
      return this.#settle(event, trustWatched(message, isWatched))
    }
    return this.#signed.start(event, lane)
  }

  #applyMarker(event: RelayEvent, message: Marker): 'done' {
    // The next signature of the account is checked against what its document says after this event came. An `#account`
    // says nothing of the document: read again for each, it would hold up commits while the directory is away.
    if (message.kind === 'identity')
      this.#options.checks?.resolver.purge(message.did, { sinceMs: event.receivedMs })
    return this.#settle(event, message)
  }

  #settle(event: RelayEvent, verdict: Verdict | Marker): 'done' {
    const { did } = event.message
    if ('error' in verdict) throw verdict.error
    if (verdict.ok) {
      this.#observer.onEvent(verdict.kind)
      this.#connection.markHealthy()
      const repeated = this.#fold.apply(verdict, event.message, event.epoch)
      if (repeated) this.#observer.onRefused(repeated.reason, did, repeated.detail, event.message)
    } else this.#observer.onRefused(verdict.reason, did, verdict.detail, event.message)
    this.#finish(event)
    return 'done'
  }

  /** Gives up an event that is not at fault. Its account is marked, because records of it may be missing. */
  #leaveOut(event: RelayEvent, detail: string, reason: EventRefusal = 'identity-unavailable'): void {
    const { did } = event.message
    this.#fold.markIncomplete(did)
    this.#observer.onRefused(reason, did, detail, event.message)
    this.#finish(event)
  }

  #finish({ message, progress }: RelayEvent): void {
    progress.finish(message.upstreamSeq)
    if (this.#states.dirtyCount > dirtyStatesMax) this.#saveIfChanged()
  }

  #checkRoom(): void {
    const { checks, sink } = this.#options
    const bytes = checks?.verification.pendingBytes ?? 0
    this.#isPressed = bytes >= (this.#isPressed ? verifyBytes.low : verifyBytes.high)
    if (!sink.askForRoom() || this.#areManyWaiting || this.#isPressed) this.#connection.pause()
    else this.#connection.resume()
  }

  #saveIfChanged(): void {
    if (this.#saving) return
    const { position, covered, dirtyCount } = this.#states
    const isSaved = position?.cursor === this.#progress.done && position.epoch === this.#epoch.epoch
    // Save also when only blocks were written, so that the log lets go of their rows although no event follows.
    if (isSaved && dirtyCount === 0 && covered.blockSeq === this.#options.sink.blockSeq) return
    this.#saving = this.#save().finally(() => {
      this.#saving = undefined
    })
  }

  async #save(): Promise<void> {
    const { sink, relayUrl } = this.#options
    const covered = { appliedSeq: sink.appendedSeq, blockSeq: sink.blockSeq }
    const { epoch, epochBeganMs } = this.#epoch
    const position = { relayUrl, epoch, epochBeganMs, cursor: this.#progress.done }
    await this.#states.save(position, covered, sink.whenDurable())
    sink.stateSaved(covered)
  }
}
