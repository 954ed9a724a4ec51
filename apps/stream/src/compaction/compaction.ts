/**
 * Takes out of sealed segments what is not to be there any more: rows that later ones supersede, every few hours and on
 * demand, and rows of accounts that were taken down, as soon as that is known and ahead of everything else: a pass that is
 * under way stops for them between two segments.
 *
 * Must hold: no row goes that nothing supersedes; a file is the old one or the new one whatever happens, and readers in
 * flight finish with the one that they have; what is superseded in part of the archive is noted as done only when all
 * older rows were looked at; memory and bytes a second are bounded.
 */
import { setImmediate } from 'node:timers/promises'
import { systemClock, wait, type Clock } from '@tributary/lanes'
import { type DidHash, hashDid, SegmentError } from '@tributary/segment'
import { freeBytes, type Compactor, type SealedSegment, type SegmentDirectory } from '@tributary/segment/node'
import { TokenBucket } from '@tributary/rates'
import type { Logger } from '@tributary/telemetry'
import type { Archive } from '../archive/archive.ts'
import type { RepoStates } from '../ingest/repo-states.ts'
import { AccountBlocks } from './account-blocks.ts'
import type { CompactionStore, Takedown } from './compaction-store.ts'
import { orDamaged } from './or-damaged.ts'
import { Tombstones } from './tombstones.ts'

export interface CompactionOptions {
  archive: Pick<Archive, 'appendedSeq' | 'forgetLogged' | 'seal' | 'segments'>
  store: CompactionStore
  states: Pick<RepoStates, 'get'>
  /** Milliseconds between two passes; 0: only on demand. */
  everyMs: number
  /** Bytes of blocks that are read in a second. */
  bytesPerSecond: number
  logger: Logger
  /** Rows have left the archive. */
  onDropped: () => void
  onFailure: (error: Error) => void
  /** Default: that of the machine. */
  clock?: Clock
}

/** What the passes since the start have done. */
export interface CompactionReport {
  /** A pass, or a takedown, is under way or asked for. */
  isRunning: boolean
  rowsDropped: number
  segmentsRewritten: number
  bytesFreed: number
  /** Rows up to this seq supersede nothing any more. */
  compactedSeq: number
  /** Accounts that were taken down and may be in sealed segments still. */
  pendingTakedowns: number
  endedAtMs: number
}

/** What is superseded by one round, at some 150 bytes each. A pass takes as many rounds as it needs. */
const tombstonesMax = 200_000
/** Takedowns that are looked for in a segment's filter when somebody asks; with more of them it counts as pending. */
const filteredAccountsMax = 1000
/**
 * Takedowns that may wait for the active segment to be sealed. With more of them it is sealed for their sake, but not again
 * within so many milliseconds: a PDS may take down a thousand accounts again and again.
 */
const waiting = { max: 1000, sealEveryMs: 600_000 }
/** Takedowns whose states are looked up, or stored, in one turn of the event loop: some 20 ms of work. */
const takedownsPerTurn = 2000
/**
 * How soon takedowns are begun with, so that those of a minute are done in one pass. A pass that is under way has as long
 * for itself between two looks at them.
 */
const takedownDelayMs = 10_000
/** How soon a takedown is tried again whose segment was not rewritten. A start, which a repair needs, tries it at once. */
const retryMs = { damaged: 3_600_000, 'no-room': 600_000 } as const
const tickMs = 250

/** A segment that may hold what was to leave it, and why it was not rewritten. */
interface Unfinished {
  segment: SealedSegment
  fault: keyof typeof retryMs
}

export class Compaction {
  readonly #options: CompactionOptions
  readonly #clock: Clock
  readonly #stop = new AbortController()
  readonly #bucket: TokenBucket
  readonly #report = { rowsDropped: 0, segmentsRewritten: 0, bytesFreed: 0, endedAtMs: 0 }
  readonly #hashes = new WeakMap<Takedown, DidHash>()
  #pending: { sealed: readonly SealedSegment[]; revision: number; names: Promise<string[]> } | undefined
  #isRunning = false
  #isWanted = false
  #dueMs: number
  /** When the active segment was last sealed here. */
  #sealedMs = -Infinity
  /** No takedown was due at a time, nor is one until another, unless one is noted or segments change. */
  #nothingDue = { revision: -1, sealedSeq: 0, atMs: 0, untilMs: 0 }
  /** When a pass last looked for takedowns. */
  #takedownsLookedMs = 0
  #running: Promise<void> | undefined

  constructor(options: CompactionOptions) {
    const { clock = systemClock, bytesPerSecond, everyMs } = options
    this.#options = options
    this.#clock = clock
    this.#bucket = new TokenBucket({ perSecond: bytesPerSecond }, () => clock.nowMs())
    this.#dueMs = everyMs > 0 ? clock.nowMs() + everyMs : Infinity
  }

  get report(): CompactionReport {
    const { store } = this.#options
    return {
      ...this.#report,
      isRunning: this.#isRunning || this.#isWanted,
      compactedSeq: store.compactedSeq,
      pendingTakedowns: store.countBefore(this.#sealedSeq),
    }
  }

  /** Whether a sealed segment may hold records of accounts that were taken down: they have yet to leave it. */
  async isPending(segment: SealedSegment): Promise<boolean> {
    const open = this.#options.store.before(segment.header.maxSeq)
    const some = open.take(filteredAccountsMax + 1).toArray()
    if (some.length === 0 || some.length > filteredAccountsMax) return some.length > 0
    const filter = await orDamaged(segment.readDidFilter())
    return !filter || some.some((takedown) => filter.has(this.#hashOf(takedown)))
  }

  /** The names of the sealed segments that are. They are looked for once, until a segment or a takedown changes. */
  pendingSegments(): Promise<string[]> {
    const { sealed } = this.#options.archive.segments
    const { revision } = this.#options.store
    if (this.#pending?.sealed !== sealed || this.#pending.revision !== revision) {
      const names = this.#pendingNames(sealed)
      const pending = { sealed, revision, names }
      this.#pending = pending
      names.catch(() => {
        if (this.#pending === pending) this.#pending = undefined
      })
    }
    return this.#pending.names
  }

  async #pendingNames(sealed: readonly SealedSegment[]): Promise<string[]> {
    const names: string[] = []
    if (this.#options.store.countBefore(this.#sealedSeq) === 0) return names
    for (const segment of sealed) {
      if (await this.isPending(segment)) names.push(segment.name)
      // Up to a thousand accounts were looked for, in a filter that may have been in memory.
      await setImmediate()
    }
    return names
  }

  /** Hashing an account takes as long as a look at a hundred filters. */
  #hashOf(takedown: Takedown): DidHash {
    let hash = this.#hashes.get(takedown)
    if (!hash) this.#hashes.set(takedown, (hash = hashDid(takedown.did)))
    return hash
  }

  /** Begins a pass as soon as none is under way. */
  compact(): void {
    this.#isWanted = true
  }

  start(): void {
    this.#running = this.#run()
  }

  /** Ends what is under way. A file that is not written to its end is left out. */
  async close(): Promise<void> {
    this.#stop.abort(new Error('the stream stops'))
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        await this.#look()
      } catch (error) {
        if (!signal.aborted) return this.#options.onFailure(error as Error) // our own code throws errors only
      }
      await wait(this.#clock, tickMs, signal)
    }
  }

  async #look(): Promise<void> {
    const nowMs = this.#clock.nowMs()
    const isPass = this.#isWanted || this.#isDue(nowMs)
    if (!isPass && !this.#areTakedownsDue(nowMs)) return
    this.#isRunning = true
    try {
      await this.#takeDown(isPass)
      if (!isPass) return
      this.#isWanted = false
      await this.#pass()
      if (this.#options.everyMs > 0) this.#dueMs = this.#clock.nowMs() + this.#options.everyMs
      this.#report.endedAtMs = this.#clock.nowMs()
    } finally {
      this.#isRunning = false
    }
  }

  #areTakedownsDue(nowMs: number): boolean {
    const { store } = this.#options
    const { revision } = store
    const sealedSeq = this.#sealedSeq
    const { atMs, untilMs, ...seen } = this.#nothingDue
    const isSame = seen.revision === revision && seen.sealedSeq === sealedSeq
    if (isSame && nowMs >= atMs && nowMs < untilMs) return false
    let soonestMs = Infinity
    for (const takedown of store.before(sealedSeq)) {
      const dueMs = dueAt(takedown, nowMs)
      if (dueMs <= nowMs) return true
      soonestMs = Math.min(soonestMs, dueMs)
    }
    this.#nothingDue = { revision, sealedSeq, atMs: nowMs, untilMs: soonestMs }
    return false
  }

  /** Does the takedowns that are due while a pass is under way, which may take hours. */
  async #takeDownMeanwhile(): Promise<void> {
    const nowMs = this.#clock.nowMs()
    if (Math.abs(nowMs - this.#takedownsLookedMs) < takedownDelayMs) return
    if (this.#areTakedownsDue(nowMs)) await this.#takeDown(false)
    this.#takedownsLookedMs = this.#clock.nowMs()
  }

  /** Whether it is time for a pass. When that is too far away the clock was set back since the last one. */
  #isDue(nowMs: number): boolean {
    const { everyMs } = this.#options
    return everyMs > 0 && (nowMs >= this.#dueMs || nowMs < this.#dueMs - everyMs)
  }

  get #sealedSeq(): number {
    return this.#options.archive.segments.sealed.at(-1)?.header.maxSeq ?? 0
  }

  /** Takedowns of accounts of which sealed segments may hold records. */
  #openTakedowns(): IteratorObject<Takedown> {
    return this.#options.store.before(this.#sealedSeq)
  }

  /**
   * Takes every record of accounts out of the sealed segments, unless they are active again.
   * @param isPass those are tried too that wait for a segment which could not be rewritten.
   */
  async #takeDown(isPass: boolean): Promise<void> {
    const { archive, store, states, logger } = this.#options
    // An account that is taken down does not have the active segment sealed: nobody can download that, and many such
    // accounts would leave as many segments. A pass has it sealed, and they go first. Takedowns that a segment holds up do
    // not wait for the active one.
    const areMany = store
      .takedowns()
      .filter(({ againAtMs }) => againAtMs === 0)
      .drop(waiting.max)
      .some(() => true)
    const nowMs = this.#clock.nowMs()
    const maySeal = Math.abs(nowMs - this.#sealedMs) >= waiting.sealEveryMs
    if (isPass || (areMany && maySeal)) {
      await archive.seal()
      this.#sealedMs = nowMs
    }
    const takedowns = this.#openTakedowns()
      .filter(({ againAtMs }) => isPass || !isHeld(againAtMs, nowMs))
      .toArray()
    if (takedowns.length === 0) return
    const { appendedSeq } = archive
    const lookedSeq = this.#sealedSeq
    const before = this.#report.rowsDropped
    const tombstones = new Tombstones()
    let afterSeq = lookedSeq
    for await (const some of this.#inTurns(takedowns))
      for (const each of some) {
        afterSeq = Math.min(afterSeq, each.lookedSeq)
        if (states.get(each.did)?.isHidden) tombstones.addAccount(each.did, lookedSeq + 1)
      }
    const unfinished = await this.#apply(tombstones, afterSeq)
    let pending = 0
    for await (const some of this.#inTurns(takedowns)) {
      const looked: Takedown[] = []
      for (const each of some) {
        const upToSeq = states.get(each.did)?.isHidden ? each.upToSeq || appendedSeq : 0
        const through = { ...each, lookedSeq, upToSeq, againAtMs: 0 }
        const held = await this.#heldBy(unfinished, through, each.lookedSeq)
        if (held) pending++
        looked.push(held ?? through)
      }
      await store.notePass(looked)
    }
    logger.info(
      { accounts: takedowns.length - pending, pending, rows: this.#report.rowsDropped - before },
      'takedowns have left the sealed segments',
    )
  }

  /** Some at a time, with a turn of the event loop for others before each: a PDS may take down as many as it likes. */
  async *#inTurns(takedowns: readonly Takedown[]): AsyncGenerator<readonly Takedown[], void> {
    for (let from = 0; from < takedowns.length; from += takedownsPerTurn) {
      await setImmediate()
      this.#stop.signal.throwIfAborted()
      yield takedowns.slice(from, from + takedownsPerTurn)
    }
  }

  /** How far a takedown was looked at that a segment holds up which could not be rewritten. Undefined without one. */
  async #heldBy(
    unfinished: readonly Unfinished[],
    takedown: Takedown,
    afterSeq: number,
  ): Promise<Takedown | undefined> {
    for (const { segment, fault } of unfinished) {
      const { minSeq, maxSeq } = segment.header
      if (maxSeq <= afterSeq || minSeq > takedown.upToSeq) continue
      const filter = await orDamaged(segment.readDidFilter())
      if (filter?.has(this.#hashOf(takedown)) === false) continue
      const againAtMs = this.#clock.nowMs() + retryMs[fault]
      return { ...takedown, lookedSeq: Math.max(afterSeq, minSeq - 1), againAtMs }
    }
    return undefined
  }

  /** Looks at everything that was sealed since the last pass, and takes out what it supersedes. */
  async #pass(): Promise<void> {
    const { archive, store, logger } = this.#options
    await archive.seal()
    const before = { ...this.#report }
    let afterSeq = store.compactedSeq
    let isComplete = true
    for (let isMore = true; isMore;) {
      const { tombstones, throughSeq, isAll } = await this.#collect(afterSeq)
      const unfinished = await this.#apply(tombstones, -1, () => this.#takeDownMeanwhile())
      // The next pass looks again for what a segment holds that could not be rewritten.
      isComplete &&= unfinished.length === 0
      if (isComplete) await store.setCompactedSeq(throughSeq)
      afterSeq = throughSeq
      isMore = !isAll && !unfinished.some(({ fault }) => fault === 'no-room')
    }
    const { rowsDropped, segmentsRewritten } = this.#report
    logger.info(
      { rows: rowsDropped - before.rowsDropped, segments: segmentsRewritten - before.segmentsRewritten },
      'the archive was compacted',
    )
  }

  /** What rows after a seq supersede, of as many blocks as memory allows. */
  async #collect(afterSeq: number): Promise<{ tombstones: Tombstones; throughSeq: number; isAll: boolean }> {
    const tombstones = new Tombstones()
    let throughSeq = afterSeq
    const { segments } = this.#options.archive
    for (const { index: segmentIndex, header, blocks } of segments.sealed) {
      if (header.maxSeq <= afterSeq) continue
      for (const [blockIndex, { maxSeq, eventCount, compressedSize }] of blocks.entries()) {
        if (maxSeq <= afterSeq) continue
        if (tombstones.size >= tombstonesMax) return { tombstones, throughSeq, isAll: false }
        if (eventCount > 0) {
          await this.#takeDownMeanwhile()
          await this.#pace(compressedSize)
          // Read from the present file: a takedown may have replaced it, and blocks keep their places.
          const block = await orDamaged(segments.readBlock({ segmentIndex, blockIndex }))
          // Archive verify names a damaged one. What it would supersede stays.
          if (block) {
            tombstones.addBlock(block)
            freeBytes(block.body)
          }
        }
        throughSeq = maxSeq
      }
    }
    return { tombstones, throughSeq, isAll: true }
  }

  /**
   * Rewrites every segment with rows after a seq that holds rows which are superseded.
   * @param beforeSegment may rewrite segments itself.
   * @returns the segments that may hold such rows still.
   */
  async #apply(
    tombstones: Tombstones,
    afterSeq: number,
    beforeSegment?: () => Promise<void>,
  ): Promise<Unfinished[]> {
    if (tombstones.size === 0) return []
    const { segments } = this.#options.archive
    const pace = (bytes: number): Promise<void> => this.#pace(bytes)
    const accounts = await AccountBlocks.of(tombstones.accounts.keys(), pace)
    const compactor: Compactor = {
      mayHold: (segment, blockIndex) => {
        const entry = segment.blocks[blockIndex]
        if (!entry || entry.eventCount === 0 || entry.minSeq >= tombstones.maxSeq) return false
        return accounts.mayBeIn(segment, blockIndex)
      },
      isDropped: (block, i) => tombstones.supersede(block, i),
      pace,
    }
    const unfinished: Unfinished[] = []
    let fault: Unfinished['fault'] | undefined
    for (const segment of segments.sealed) {
      this.#stop.signal.throwIfAborted()
      const { minSeq, maxSeq } = segment.header
      if (minSeq >= tombstones.maxSeq || maxSeq <= afterSeq) continue
      await beforeSegment?.()
      // Another rewrite would take what little room is left from new rows.
      if (fault !== 'no-room') fault = await this.#rewrite(segments, segment, compactor)
      if (fault) unfinished.push({ segment, fault })
    }
    // Before the pass is noted as done, so that a stop between the two has it done again.
    await this.#options.archive.forgetLogged()
    return unfinished
  }

  /** Rewrites a segment that holds rows which go. Tells why it is left as it was; undefined when nothing is to go any more. */
  async #rewrite(
    segments: SegmentDirectory,
    { index, name }: SealedSegment,
    compactor: Compactor,
  ): Promise<Unfinished['fault'] | undefined> {
    const { logger } = this.#options
    const outcome = await orDamaged(
      segments.compact(index, compactor).catch((error: unknown) => {
        if (error instanceof SegmentError && error.problem === 'no-room') return 'no-room' as const
        throw error
      }),
    )
    if (outcome === 'no-room') {
      logger.error({ segment: name }, 'the disk has no room to compact a segment: make room')
      return outcome
    }
    if (!outcome) {
      logger.error({ segment: name }, 'a damaged segment is not compacted: verify the archive')
      return 'damaged'
    }
    if (outcome.rowsDropped === 0) return undefined
    this.#report.rowsDropped += outcome.rowsDropped
    this.#report.segmentsRewritten++
    this.#report.bytesFreed += outcome.bytesFreed
    this.#options.onDropped()
    return undefined
  }

  async #pace(bytes: number): Promise<void> {
    const { signal } = this.#stop
    signal.throwIfAborted()
    const waitMs = this.#bucket.waitMsFor(1)
    this.#bucket.spend(bytes)
    if (waitMs > 0) await wait(this.#clock, waitMs, signal)
    signal.throwIfAborted()
  }
}

/** When a takedown is to be begun with. What is noted for a later time was noted before the clock was set back. */
function dueAt({ atMs, lookedSeq, againAtMs }: Takedown, nowMs: number): number {
  if (isHeld(againAtMs, nowMs)) return againAtMs
  return lookedSeq >= 0 || atMs > nowMs ? nowMs : atMs + takedownDelayMs
}

/** Whether a takedown waits for its next try. Of a time that is too far away the clock was set back since. */
function isHeld(againAtMs: number, nowMs: number): boolean {
  return againAtMs > nowMs && againAtMs <= nowMs + retryMs.damaged
}
