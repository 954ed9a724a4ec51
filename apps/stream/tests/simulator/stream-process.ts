/**
 * One process of the stream, from its start to its end: the real parts of it, wired as `service.ts` wires them, on
 * virtual time, with a disk and a database that outlive it, and without sockets and threads.
 */
import { isStorageFault } from '@tributary/event-log'
import { Fanout, frameMessage } from '@tributary/fanout'
import { createResolver } from '@tributary/identity'
import { createLogger } from '@tributary/telemetry'
import { MachineClock, type ProcessClock, type VirtualTime } from '@tributary/testkit/simulation'
import { Archive } from '../../src/archive/archive.ts'
import type { BackfillStore } from '../../src/backfill/backfill-store.ts'
import { Coverage } from '../../src/backfill/coverage.ts'
import { Compaction } from '../../src/compaction/compaction.ts'
import { CompactionStore } from '../../src/compaction/compaction-store.ts'
import { Ingest } from '../../src/ingest/ingest.ts'
import type { EventRefusal, IngestObserver } from '../../src/ingest/ingest-observer.ts'
import { RepoStates } from '../../src/ingest/repo-states.ts'
import { WatchedCollections } from '../../src/policy/watched-collections.ts'
import { HiddenAccounts } from '../../src/delivery/hidden-accounts.ts'
import { renderError } from '../../src/delivery/render.ts'
import { Delivery } from '../../src/delivery/delivery.ts'
import type { StateDatabase } from '../../src/state-database.ts'
import { watchedCollections } from './collections.ts'
import type { StreamConditions } from './conditions.ts'
import type { Ledger } from './ledger.ts'
import { openBackfill, type OpenBackfill } from './open-backfill.ts'
import { Operator } from './operator.ts'
import type { Storage } from './storage.ts'
import { directoryOf, type SimulatedAccount, type SimulatedRelay } from './upstream.ts'
import { WatchingVerification } from './watching-verification.ts'

/** Bounds that a few rows can fill. */
export interface Bounds {
  segmentBytes: number
  logFileBytes: number
  blockAgeMs: number
  tailBytes: number
  /** The relay is trusted, and no document is read. */
  isTrusting: boolean
  /** Rows of a repository that are written in one turn of the event loop. Default: as many as there are. */
  refillRows?: number
  /** Bytes that subscribers may hold together. Default: any number. */
  heldBytes?: number
  /** How far back a cursor may reach. Default: as far as there is anything. */
  lookBackMs?: number
  /** Records have long keys. Default: short ones. */
  areKeysLong?: boolean
}

/** Moments of a process, at which a script may end it. */
export type Point =
  | 'repo-asked'
  | 'refill-begins'
  | 'refill-ends'
  | 'saving'
  | 'saved'
  | 'takedown'
  | 'block-written'
  | 'rows-dropped'

/** What is taken out of the archive, and what is written into it again. */
export interface Upkeep {
  /** 0: only on demand. */
  compactEveryMs: number
  compactBytesPerSecond: number
  /** How long after a start repositories are read that are not known to be whole. Undefined: never. */
  listedAfterMs: number | undefined
  /** Accounts of which the relay has not told before. */
  quietAccounts: number
}

export interface World {
  time: VirtualTime
  conditions: StreamConditions
  accounts: readonly SimulatedAccount[]
  relay: SimulatedRelay
  storage: Storage
  bounds: Bounds
  upkeep: Upkeep
  /** Told of each moment that comes. */
  onPoint: (point: Point) => void
}

export const cacheBytesMax = 20_000
const readBytes = 4096
const segmentAgeMs = 600_000
/** Reasons for which nothing is refused that an account itself has signed. */
const unjust: ReadonlySet<EventRefusal> = new Set<EventRefusal>([
  'bad-signature',
  'missing-key',
  'malformed-event',
  'mismatched-fields',
  'missing-prev-data',
  'invalid-ops',
  'invalid-mst',
  'missing-block',
  'missing-op-prev',
])
const stopMsMax = 120_000
const logger = createLogger('simulator', { level: 'silent' })
/** A disk that is stuck takes six seconds for each read. */
const startMsMax = 1_200_000

interface Parts {
  archive: Archive
  states: RepoStates
  ingest: Ingest
  delivery: Delivery
  fanout: Fanout
  compaction: Compaction
  watched: WatchedCollections
  jobs: BackfillStore
  coverage: Coverage
  operator: Operator
}

export class StreamProcess {
  readonly world: World
  readonly clock: ProcessClock
  readonly #ledger: Ledger
  #fault: unknown
  /** Rejects when the process ends by itself: what it does then may never come to an end. */
  readonly #failed = Promise.withResolvers<never>()
  #isOver = false
  #isListening = false
  #database: StateDatabase | undefined
  #archive: Archive | undefined
  #compaction: Compaction | undefined
  #backfill: OpenBackfill | undefined
  #parts: Parts | undefined

  private constructor(world: World, ledger: Ledger) {
    this.world = world
    this.#ledger = ledger
    this.clock = new MachineClock(world.time, (error) => this.fail(error))
    this.#failed.promise.catch(() => undefined)
  }

  /** @returns a process that may have ended already, because its disk failed. */
  static async start(world: World, ledger: Ledger): Promise<StreamProcess> {
    const stream = new StreamProcess(world, ledger)
    try {
      await world.time.until(Promise.race([stream.#start(), stream.#failed.promise]), startMsMax)
    } catch (error) {
      stream.fail(error)
    }
    return stream
  }

  /** The disk ended the process. */
  get hasFailed(): boolean {
    return this.#fault !== undefined
  }

  /** Whether subscribers can dial it. */
  get isListening(): boolean {
    return this.#isListening
  }

  get hasStarted(): boolean {
    return this.#parts !== undefined
  }

  get parts(): Parts {
    if (!this.#parts) throw new Error('the stream has not started')
    return this.#parts
  }

  /** Ends the process. What is no fault of its storage is a fault of the stream. */
  fail(error: unknown): void {
    if (this.#isOver || this.#fault !== undefined) return
    this.#fault = error
    this.#failed.reject(error)
    // It ends at once.
    this.clock.end()
    if (!this.world.storage.hasFailed && !isStorageFault(error) && !isFailedWrite(error))
      this.#ledger.onBroken(`A4: the process ends: ${textOf(error)}`)
  }

  /** The process is gone from one moment to the next. */
  async kill(): Promise<void> {
    this.#isOver = true
    this.#isListening = false
    this.clock.end()
    this.world.storage.end()
    this.#backfill?.kill()
    // A rewrite that waits to go on would keep the archive open. What waits for the database never ends.
    void this.#compaction?.close()
    await this.#archive?.close().catch(() => undefined)
    this.#database?.close()
  }

  /** Ends it as `service.ts` does. False when it failed on the way. */
  async stop(): Promise<boolean> {
    const { ingest, fanout, archive, compaction, states } = this.parts
    const ending = async (): Promise<void> => {
      await compaction.close()
      await this.#backfill?.close()
      await ingest.close()
      await fanout.close()
      this.#isListening = false
      await archive.close()
    }
    try {
      await this.world.time.until(Promise.race([ending(), this.#failed.promise]), stopMsMax)
      this.#isOver = true
      this.clock.end()
      const saved = states.position?.cursor ?? 0
      if (saved !== ingest.cursor)
        this.#ledger.onBroken(`a stop saves the position ${saved}, and all is done up to ${ingest.cursor}`)
      this.#database?.close()
      return true
    } catch (error) {
      this.fail(error)
      return false
    }
  }

  #onTakedown: (did: string) => void = () => {}
  #onActive: (did: string) => void = () => {}

  readonly #observer: IngestObserver = {
    onEvent: () => undefined,
    onRefused: (reason, did, detail, event) => {
      this.#ledger.note(`refused ${reason} of ${did}: ${detail}`)
      if (did !== undefined) this.#ledger.account(did).mayBeginAnew()
      // A directory that is wrong has its events left out.
      if (did !== undefined && reason === 'identity-unavailable') this.#ledger.account(did).mayBeRefused()
      if (reason === 'internal-error') this.#ledger.onBroken('A4: an event is refused for a defect')
      if (event && unjust.has(reason) && this.#isReal(event.upstreamSeq))
        this.#ledger.onBroken(`a real commit ${event.upstreamSeq} of ${did} is refused: ${reason}`)
      const left =
        reason === 'identity-unavailable' ? this.world.relay.at(event?.upstreamSeq ?? 0) : undefined
      if (left) this.#ledger.account(left.did).leaveOut(String(left.body['rev']))
    },
    onOpDropped: (reason, did) => this.#ledger.onBroken(`an operation of ${did} is dropped: ${reason}`),
    onDiscontinuity: (did) => this.#ledger.note(`discontinuity of ${did}`),
    onTakedown: (did) => this.#onTakedown(did),
    onActive: (did) => this.#onActive(did),
    onState: ({ is }) => this.#ledger.note(`the relay is ${is}`),
    onNotice: (notice) => {
      this.#ledger.note(`notice ${notice.is}`)
      if (notice.is === 'internal-error' && !this.world.storage.hasFailed)
        this.#ledger.onBroken(`A4: a defect: ${textOf(notice.error)}`)
    },
  }

  /** Whether an event is a commit that is signed with the key which the document of its account names. */
  #isReal(upstreamSeq: number): boolean {
    const { relay, accounts } = this.world
    const { did, signer } = relay.at(upstreamSeq) ?? {}
    return signer !== undefined && accounts.find((each) => each.did === did)?.signers.at(-1) === signer
  }

  async #start(): Promise<void> {
    const { world, clock } = this
    const { storage, conditions, accounts, relay, bounds, upkeep } = world
    const { directory, log, segments, database, commit, sync } = storage.open(clock)
    this.#database = database
    const states = new RepoStates(database, async (of, change) => {
      world.onPoint('saving')
      await commit(of, change)
      world.onPoint('saved')
    })
    const watched = new WatchedCollections(database, watchedCollections, clock.nowMs())
    const lost = this.#ledger.watched.symmetricDifference(watched.names())
    if (lost.size > 0 && !this.#ledger.isNew)
      this.#ledger.onBroken(`A7: a start forgets that ${[...lost].join()} changed`)
    this.#ledger.setWatched(watched.names())
    const { archive, recovered } = await Archive.open({
      directory,
      covered: states.covered,
      segmentBytesMax: bounds.segmentBytes,
      segmentAgeMsMax: segmentAgeMs,
      logFileBytesMax: bounds.logFileBytes,
      blockAgeMsMax: bounds.blockAgeMs,
      disk: { log, segments },
      clock,
      onFailure: (error) => this.fail(error),
    })
    this.#archive = archive
    const fanout = new Fanout({
      errorFrame: (error, message) => frameMessage('text', Buffer.from(renderError(error, message))),
      clientMessages: 'refuse',
      readBytesMax: readBytes,
      ...(bounds.heldBytes !== undefined && { heldBytesMax: bounds.heldBytes }),
      onFault: (error) => this.fail(error),
      clock,
    })
    const hidden = new HiddenAccounts(states.hidden())
    for (const row of recovered.unapplied) hidden.note(row)
    const delivery = new Delivery({
      hidden,
      segments: archive.segments,
      fanout,
      tailBytesMax: bounds.tailBytes,
      cacheBytesMax,
      onUnreadableRow: (seq) => this.#ledger.onBroken(`row ${seq} cannot be shown`),
      onUnreadableBlock: ({ key }, error) =>
        this.#ledger.onBroken(`block ${key} is damaged: ${textOf(error)}`),
    })
    delivery.publish(recovered.pending)
    archive.onVisible((rows) => {
      if (this.#isOver) return
      for (const { row } of rows) this.#ledger.show(row)
      delivery.publish(rows)
    })
    archive.onBlockWritten((seq) => {
      world.onPoint('block-written')
      delivery.coveredByBlocks(seq)
    })
    archive.boundTail(() => delivery.isTailFull())
    await this.#ledger.started(archive, recovered)
    for (const { did } of accounts)
      if (hidden.has(did) !== (this.#ledger.hidden.get(did)?.untilMs === Infinity))
        this.#ledger.onBroken(`A7: a start ${hidden.has(did) ? 'hides' : 'shows'} ${did}`)
    const resolver = createResolver({
      plcUrl: 'https://plc.example.com',
      allowedPrivateHosts: [],
      store: states.identities,
      fetch: directoryOf(accounts, clock, conditions),
      nowMs: () => clock.nowMs(),
      delay: (ms) => new Promise((resolve) => void clock.after(ms, resolve)),
    })
    const verification = new WatchingVerification({ clock, conditions, watched: () => watched.names() })
    const ingest = new Ingest({
      relayUrl: `wss://${relay.hostname}`,
      checks: bounds.isTrusting ? undefined : { resolver, verification },
      watched,
      states,
      sink: archive,
      unapplied: recovered.unapplied,
      unappliedOfBackfill: recovered.unappliedOfBackfill,
      observer: this.#observer,
      clock,
      random: () => conditions.some(0, 1),
      refillRows: bounds.refillRows ?? Infinity,
      connect: (options) => relay.connect(clock, options, (error) => this.fail(error)),
    })
    const store = new CompactionStore(database, clock, commit)
    this.#onTakedown = (did) => {
      world.onPoint('takedown')
      store.noteTakedown(states, did)
    }
    const compaction = new Compaction({
      archive,
      store,
      states,
      everyMs: upkeep.compactEveryMs,
      bytesPerSecond: upkeep.compactBytesPerSecond,
      logger,
      onDropped: () => {
        world.onPoint('rows-dropped')
        delivery.forgetArchived()
      },
      onFailure: (error) => this.fail(error),
      clock,
    })
    this.#compaction = compaction
    const headSeq = (): number => delivery.headSeq
    const onFailure = (error: Error): void => this.fail(error)
    const parts = { world, clock, database, commit, states, watched, ingest, resolver, headSeq, onFailure }
    const open = openBackfill({ ...parts, ledger: this.#ledger, logger })
    this.#backfill = open
    this.#onActive = (did) => open.backfill.noteActive(did)
    const { backfill, store: jobs } = open
    const coverage = new Coverage({ store: jobs, backfill, watched, states, headSeq })
    const operator = new Operator({ database, sync, watched, backfill })
    const served = { archive, states, ingest, delivery, fanout, compaction, watched }
    this.#parts = { ...served, jobs, coverage, operator }
    this.#ledger.note('started')
    ingest.start()
    open.backfill.start()
    compaction.start()
    this.#isListening = true
  }
}

/** Whether it comes of a write that failed, as a script wished. */
function isFailedWrite(error: unknown): boolean {
  return error instanceof Error && (('code' in error && error.code === 'EIO') || isFailedWrite(error.cause))
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
