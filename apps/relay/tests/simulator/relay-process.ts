/**
 * One process of the relay, from its start to its end: the real parts of it, wired as `service.ts` wires them, on virtual
 * time, with a disk and databases that outlive it, and without sockets and threads.
 */
import { EventLog, isStorageFault, type LogSlice } from '@tributary/event-log'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import type { Random } from '@tributary/testkit/disk'
import { AccountRecovery } from '../../src/accounts/account-recovery.ts'
import { HostInquiry } from '../../src/inquiry/host-inquiry.ts'
import type { PipelineObserver } from '../../src/pipeline/pipeline-observer.ts'
import { Pipeline } from '../../src/pipeline/pipeline.ts'
import { waitLimits, type WaitLimits } from '../../src/pipeline/limits.ts'
import { newSourcePolicy } from '../../src/policy/source-policy.ts'
import type { RelayRefusal } from '../../src/refusals.ts'
import { SlotKeeper } from '../../src/sources/slot-keeper.ts'
import { SourceSet } from '../../src/sources/source-set.ts'
import type { Source } from '../../src/sources/source.ts'
import type { UpstreamEvent } from '../../src/sources/upstream-event.ts'
import { isHidden, type Account, type LocalStatus } from '../../src/state/account.ts'
import { recoverState } from '../../src/state/recover-state.ts'
import { StateStore } from '../../src/state/state-store.ts'
import { StateTrail } from '../../src/state/state-trail.ts'
import { Firehose } from '../../src/serve/firehose.ts'
import { HiddenAccounts } from '../../src/serve/hidden-accounts.ts'
import { applyTakedowns } from '../../src/serve/operator/account-operations.ts'
import { Verifier } from '../../src/verify/verifier.ts'
import type { RelayConditions } from './conditions.ts'
import { SimulatedConnection } from './connection.ts'
import { hostAnswers, type Directory, type Entry, type SimulatedHost } from './hosts.ts'
import type { Storage } from './storage.ts'
import {
  ProcessClock,
  SimulatedVerification,
  watchLog,
  type LogPast,
  type VirtualTime,
} from '@tributary/testkit/simulation'

/** How long records are kept, and how large the files are in which they go. */
export interface Retention {
  keepMs: number
  fileBytes: number
}

export interface World {
  time: VirtualTime
  random: Random
  conditions: RelayConditions
  hosts: readonly SimulatedHost[]
  /** What our relay reads: hosts, and another relay. */
  sources: readonly SimulatedHost[]
  directory: Directory
  storage: Storage
  logPast: LogPast
  /** How far the clock of the machine is ahead at most. */
  aheadMsMax: number
  identityWaitMs: number
  retention: Retention
  /** Of a later seed. In earlier ones, hosts are dialled once more while the relay stops. */
  isLate: boolean
}

/** Told of all that a process does. */
export interface Witness {
  onStarted: (relay: RelayProcess, slices: readonly LogSlice[]) => void
  onDelivered: (entry: Entry) => void
  onLost: (entries: readonly Entry[]) => void
  onRefused: (source: Source, reason: RelayRefusal, upstreamSeq: number | undefined) => void
  onRepeated: (event: UpstreamEvent) => void
  onVisible: (relay: RelayProcess, slices: readonly LogSlice[]) => void
  onHidden: (did: string, isHidden: boolean) => void
  /** A host is asked of an account: for its status, or for its commit. */
  onAsked: (relay: RelayProcess, host: SimulatedHost, did: string, isStatus: boolean) => void
  /** A promise is broken. */
  onBroken: (what: string) => void
}

/** Bounds that a few accounts can fill. */
const limits: WaitLimits = {
  lanes: {
    ...waitLimits.lanes,
    eventsPerLane: 60,
    bytesPerLane: 60_000,
    bytesPerSource: 120_000,
    lanesPerSource: { high: 12, low: 6 },
  },
  pending: { events: 60, eventsMax: 250, waitMs: 10_000 },
}
/** Bytes of the newest records that readers need no file for. */
const tailBytesMax = 6000
/** Consumers for whom the log is read at a time, as in the fan-out. */
const readsMax = 2
const places = { consumersMax: 100, consumersPerAddressMax: 10 }
const stopMsMax = 120_000
const logger = createLogger('simulator', { level: 'silent' })
/** A disk that is stuck takes six seconds for each file. */
const startMsMax = 600_000

export class RelayProcess {
  readonly world: World
  readonly #witness: Witness
  readonly clock: ProcessClock
  readonly connections = new Map<number, SimulatedConnection>()
  /** Since when accounts are left out here, and hosts are banned, in this process. */
  readonly leftOutSinceMs = new Map<string, number>()
  readonly bannedSinceMs = new Map<string, number>()
  /** When its operator decided something of an account last, in this process. */
  readonly decidedAtMs = new Map<string, number>()
  /** Why it ended by itself. */
  #fault: unknown
  /** Rejects when the process ends by itself: what it does then may never come to an end. */
  readonly #failed = Promise.withResolvers<never>()
  #isOver = false
  #isListening = true
  #parts: Parts | undefined

  private constructor(world: World, witness: Witness) {
    this.world = world
    this.#witness = witness
    this.clock = new ProcessClock(world.time, (error) => this.fail(error))
    this.#failed.promise.catch(() => undefined)
  }

  /** @returns a process that may have ended already, because its disk failed. */
  static async start(world: World, witness: Witness): Promise<RelayProcess> {
    const relay = new RelayProcess(world, witness)
    try {
      await relay.#start()
    } catch (error) {
      relay.fail(error)
    }
    return relay
  }

  /** The disk or something like it ended the process. */
  get hasFailed(): boolean {
    return this.#fault !== undefined
  }

  /** Whether consumers can dial it. */
  get isListening(): boolean {
    return this.#isListening && this.hasStarted
  }

  get parts(): Parts {
    if (!this.#parts) throw new Error('the relay has not started')
    return this.#parts
  }

  get hasStarted(): boolean {
    return this.#parts !== undefined
  }

  /** Ends the process. What is no fault of its storage is a fault of the relay. */
  fail(error: unknown): void {
    if (this.#isOver) return
    this.#fault ??= error
    this.#failed.reject(error)
    // It ends at once: what went on could store a state that the log has not.
    this.clock.end()
    if (!isStorageFault(error) && !isOfDisk(error))
      this.#witness.onBroken(`A4: the process ends: ${textOf(error)}`)
  }

  /** What nobody waits for has thrown. */
  onUnhandled(error: unknown): void {
    if (!this.#isOver) this.fail(error)
  }

  /** The process is gone from one moment to the next. */
  async kill(): Promise<void> {
    this.#isOver = true
    this.clock.end()
    await this.#firehose?.fanout.close()
    this.world.storage.end()
    await this.#log?.close().catch(() => undefined)
    this.#store?.close().catch(() => undefined)
  }

  /** Ends it as `service.ts` does. False when it failed on the way. */
  async stop(): Promise<boolean> {
    const { recovery, pipeline, log, trail, store, firehose, slots } = this.parts
    const ending = async (): Promise<void> => {
      for (const connection of this.connections.values())
        if (this.world.isLate) connection.close()
        else connection.end()
      await slots.close()
      recovery[Symbol.dispose]()
      await pipeline.close()
      // The next start brings again what the hosts send from now on.
      for (const connection of this.connections.values()) connection.close()
      await log.flush()
      await firehose.fanout.close()
      this.#isListening = false
      await trail.close()
      await store.close()
      await log.close()
    }
    try {
      await this.world.time.until(Promise.race([ending(), this.#failed.promise]), stopMsMax)
      this.#isOver = true
      this.clock.end()
      return true
    } catch (error) {
      this.fail(error)
      return false
    }
  }

  #log: EventLog | undefined
  #store: StateStore | undefined
  #firehose: Firehose | undefined
  readonly #hidden = new HiddenAccounts()

  /** Whether readers get nothing of what an account wrote. */
  isHidden(did: string): boolean {
    const account = this.#store?.accounts.get(did)
    return account !== undefined && isHidden(account)
  }

  /** What an operator decides of an account. */
  async setLocalStatus(did: Did, status: LocalStatus | undefined): Promise<void> {
    const { policy } = this.world.storage
    const { store, recovery } = this.parts
    if (!store.accounts.get(did)?.sourceId) return
    this.decidedAtMs.set(did, this.world.time.nowMs)
    if (status === undefined) this.leftOutSinceMs.delete(did)
    else this.leftOutSinceMs.set(did, this.world.time.nowMs)
    const note = status === undefined ? policy.liftTakedown(did) : undefined
    if (status !== undefined) policy.setTakedown(did, { status, reason: '' })
    await recovery.setLocalStatus(did, status)
    if (note !== undefined) policy.forgetLifted(did, note)
  }

  /** An operator lets each source bring in so many accounts more. */
  raiseQuota(more: number): void {
    const { policy } = this.world.storage
    const { sources, slots } = this.parts
    policy.storeLimits({ ...policy.limits, accountQuota: policy.limits.accountQuota + more })
    policy.reload()
    sources.applyLimits()
    slots.fillAll()
  }

  /** An operator pauses or bans a source for a while. Its connection is down meanwhile. */
  pause(index: number, forMs: number, desired: 'paused' | 'banned' = 'paused'): void {
    const { sources, recovery, slots } = this.parts
    const host = this.world.sources[index % this.world.sources.length]
    const source = sources.byHost(host?.name ?? '')
    if (!host || !source?.isWanted) return
    const decide = (desired: 'enabled' | 'paused' | 'banned'): void =>
      sources.setPolicy(source, { ...source.policy, desired }, source.revision + 1)
    decide(desired)
    if (desired === 'banned') this.bannedSinceMs.set(host.name, this.world.time.nowMs)
    this.world.conditions.set(`link ${host.index}`, 'down', forMs)
    this.clock.after(forMs, () => {
      decide('enabled')
      this.bannedSinceMs.delete(host.name)
      recovery.lookAgain(source)
      slots.fill(source.id)
    })
  }

  /** An operator has a source read from another position. */
  readAgain({ name }: SimulatedHost, cursor: number): void {
    const { sources, trail } = this.parts
    const source = sources.byHost(name)
    if (!source) return
    this.world.storage.policy.storePosition(source.id, { epoch: source.epoch + 1, cursor })
    source.beginEpoch(this.clock.nowMs(), cursor)
    trail.storeSource(source)
    this.connections.get(source.id)?.end()
  }

  async #start(): Promise<void> {
    const { world, clock } = this
    const { time, storage, conditions, hosts, directory } = world
    const { disk, directory: place, database } = storage.open(clock)
    const log = await EventLog.open({
      directory: place,
      disk,
      clock: { wallMs: () => clock.nowMs(), elapsedMs: () => clock.elapsedMs() },
      fileBytesMax: world.retention.fileBytes,
      leaseSize: 50,
      retentionMs: world.retention.keepMs,
      tailBytesMax,
    })
    this.#log = log
    watchLog(log, world.logPast, (what) => this.#witness.onBroken(what))
    log.onFailure((error) => this.fail(error))
    const store = new StateStore(database)
    this.#store = store
    store.onFailure((error) => this.fail(error))
    log.keepAbove(() => store.syncedSeq)
    const nowMs = (): number => clock.nowMs()
    const { policy } = storage
    if (policy.sources().length === 0)
      for (const { name, isRelay } of world.sources)
        policy.insertSource(
          { host: name, url: `wss://${name}` },
          { ...newSourcePolicy, kind: isRelay ? 'relay' : 'pds' },
          { countsForDay: false, nowMs: nowMs() },
        )
    const sources = new SourceSet(policy, store.sources, nowMs)
    const trail = new StateTrail(store, () => sources.sources, clock)
    const kept = await time.until(readAll(log), startMsMax)
    store.accounts.quotaOf = (sourceId) => sources.quotaOf(sourceId)
    await time.until(recoverState({ log, store, sources, trail }), startMsMax)
    log.onDurable((seq) => trail.durable(seq))
    this.#countReads(log)
    const network = { time, conditions, later: (ms: number, call: () => void) => void clock.after(ms, call) }
    const resolver = createResolver({
      plcUrl: 'https://plc.example.com',
      allowedPrivateHosts: [],
      store: store.identities,
      fetch: directory.fetch(network),
      nowMs,
      delay: (ms) => new Promise((resolve) => void clock.after(ms, resolve)),
    })
    const inquiry = new HostInquiry({
      resolver,
      allowedPrivateHosts: [],
      userAgent: 'simulator',
      clock,
      fetch: hostAnswers(hosts, {
        ...network,
        aheadMsMax: world.aheadMsMax,
        signerOf: (did) => directory.accounts.get(did)?.repo.signer,
        onAsked: (host, did, isStatus) => this.#witness.onAsked(this, host, did, isStatus),
      }),
    })
    const recovery = new AccountRecovery({
      log,
      accounts: store.accounts,
      sources,
      trail,
      resolver,
      inquiry,
      clock,
      onDefect: (did, error) => {
        if (!isStorageFault(error) && !isOfDisk(error))
          this.#witness.onBroken(`A4: a defect for ${did}: ${textOf(error)}`)
        else this.fail(error)
      },
    })
    const verifier = new Verifier(nowMs)
    const firehose = new Firehose(log, {
      logger,
      serverHeader: 'simulator',
      hidden: this.#hidden,
      lagMax: 0,
      places,
      onEnded: () => undefined,
      onNotEncoded: (framing) => this.#witness.onBroken(`a record cannot be encoded as ${framing}`),
      clock,
    })
    this.#firehose = firehose
    const pipeline = new Pipeline({
      clock,
      log,
      accounts: store.accounts,
      resolver,
      inquiry,
      recovery,
      trail,
      verification: new SimulatedVerification({
        clock,
        conditions,
        verify: (_, bytes, key, isStrict) => verifier.verify(bytes, key, isStrict),
      }),
      strict: true,
      identityWaitMsMax: world.identityWaitMs,
      takeUnheard: (did) => sources.takeUnheard(did),
      forwardersOf: (did) => sources.forwardersOf(did),
      speakerOf: ({ sourceId }) => sources.byId(sourceId),
      refusalOfForwarded: (host) => {
        if (sources.isBanned(host)) return 'host-banned'
        return sources.byHost(host)?.isWanted ? 'direct-source' : undefined
      },
      observer: this.#observer,
      random: () => world.random.next(),
      limits,
    })
    const slots = new SlotKeeper({ accounts: store.accounts, sources, recovery, logger })
    this.#parts = { log, store, sources, trail, recovery, pipeline, resolver, firehose, slots }
    for (const account of store.accounts.hidden()) this.#hide(account)
    this.#witness.onStarted(this, kept)
    log.onVisible((slices) => {
      if (!this.#isOver) this.#witness.onVisible(this, slices)
    })
    recovery.start(pipeline)
    pipeline.onPressure((isPressed) => {
      for (const connection of this.connections.values()) connection.setPaused('backlog', isPressed)
    })
    await time.until(applyTakedowns({ policy, accounts: store.accounts, recovery }), startMsMax)
    for (const source of sources.sources) this.#connect(source, pipeline)
    slots.fillAll()
    clock.every(60_000, () => void log.applyRetention())
  }

  /** A2: from now on only consumers that are behind have the log read, some at a time. */
  #countReads(log: EventLog): void {
    const read = log.read.bind(log)
    let underWay = 0
    log.read = async (...position) => {
      if (++underWay > readsMax) this.#witness.onBroken(`A2: ${underWay} consumers have files read at a time`)
      try {
        return await read(...position)
      } finally {
        underWay--
      }
    }
  }

  #connect(source: Source, pipeline: Pipeline): void {
    const { conditions } = this.world
    const host = this.world.sources.find(({ name }) => name === source.host)
    if (!host) return
    const connection = new SimulatedConnection({
      source,
      host,
      pipeline,
      clock: this.clock,
      conditions,
      onDeliver: (entry) => this.#witness.onDelivered(entry),
      onLost: (entries) => this.#witness.onLost(entries),
      onThrown: (error) => this.fail(error),
    })
    this.connections.set(source.id, connection)
  }

  #hide(account: Account): void {
    this.#hidden.set(account, isHidden(account), this.parts.log.nextSeq)
    this.#witness.onHidden(account.did, isHidden(account))
  }

  readonly #observer: PipelineObserver = {
    onReceived: () => undefined,
    onRefused: (source, reason, _, event) => this.#witness.onRefused(source, reason, event?.upstreamSeq),
    onRepeated: (_, event) => this.#witness.onRepeated(event),
    onWaived: () => undefined,
    onDiscontinuity: () => undefined,
    onDurable: () => undefined,
    onIdentityFault: () => undefined,
    onStatus: (account) => this.#hide(account),
    onPaused: ({ id }, reason, isPaused) => this.connections.get(id)?.setPaused(reason, isPaused),
    onInternalError: (source, error) => {
      this.#witness.onBroken(`A4: a defect for a message of ${source.host}: ${textOf(error)}`)
    },
  }
}

interface Parts {
  log: EventLog
  store: StateStore
  sources: SourceSet
  trail: StateTrail
  recovery: AccountRecovery
  pipeline: Pipeline
  resolver: ReturnType<typeof createResolver>
  firehose: Firehose
  slots: SlotKeeper
}

async function readAll(log: EventLog): Promise<LogSlice[]> {
  const slices: LogSlice[] = []
  for await (const slice of log.replay(0)) slices.push(slice)
  return slices
}

/** The power is cut, or a call of a start has failed. Others tell of it by errors of their own. */
function isOfDisk(error: unknown): boolean {
  return (
    error instanceof Error && (error.name === 'PowerCutError' || ('code' in error && error.code === 'EIO'))
  )
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
