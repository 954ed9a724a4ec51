/**
 * Delivers rows to subscribers, live and from any older position. Both are one read path over the same order: what is
 * visible is in the memory tail, in a block of the archive, or in both, and a subscriber is a filter and a position.
 * So there is no switch from replay to live that could lose, repeat or reorder anything.
 *
 * Always holds: the tail covers every visible row that no block has; a run is in the tail before it is published; no record
 * of a hidden account is shown to anybody who reads after the event that hides it.
 * Deliberately elsewhere: sockets and their pace (`@tributary/fanout`), which positions may be asked for (`serve`).
 */
import { type CatchUp, type Fanout, frameText } from '@tributary/fanout'
import { isDamage } from '@tributary/segment'
import type { SegmentDirectory } from '@tributary/segment/node'
import type { VisibleRow } from '../archive/archive.ts'
import { lostMessage, type LostSeqs } from '../archive/lost-rows.ts'
import { BlockCache, BlockRun, type OnUnreadableRow } from './block-cache.ts'
import { type BlockPlace, BlockPlaces } from './block-places.ts'
import { FilterGroup, type Subscription, subscriptionKey } from './filter-group.ts'
import { FilterIndex } from './filter-index.ts'
import { collect, type Wants } from './frame-run.ts'
import { HiddenAccounts } from './hidden-accounts.ts'
import { LiveFrames } from './live-frames.ts'
import { LiveRun } from './live-run.ts'
import { MemoryTail } from './memory-tail.ts'
import { renderInfo } from './render.ts'
import { ownRendition, renderedAs, type Rendition } from './rendition.ts'

export interface DeliveryOptions {
  segments: SegmentDirectory
  fanout: Fanout
  /** Bytes of finished messages that are kept for readers near the tip. */
  tailBytesMax: number
  /** Bytes of decoded blocks that are kept for readers further back. */
  cacheBytesMax: number
  /** Whose records are not shown as of now. Published rows change it. Default: nobody's. */
  hidden?: HiddenAccounts
  /** Rows that are gone, the oldest first: readers that pass them are told. Default: none. */
  lost?: readonly LostSeqs[]
  onUnreadableRow: OnUnreadableRow
  /** Told once of a block that is damaged; readers are told too, and pass over it. */
  onUnreadableBlock: OnUnreadableBlock
}

/**
 * Bytes of messages that are written in other ways, or compressed, for live readers in one turn of the event loop: some fifty
 * milliseconds where readers want them in all ways. One commit may have thirty megabytes.
 */
const renderedPerTurnMax = 4 * 1024 * 1024

export type OnUnreadableBlock = (block: Pick<BlockPlace, 'key' | 'minSeq' | 'maxSeq'>, error: Error) => void

export class Delivery {
  readonly #blocks: BlockPlaces
  readonly #fanout: Fanout
  readonly #tail: MemoryTail
  readonly #cache: BlockCache
  readonly #groups = new Map<string, FilterGroup>()
  readonly #index = new FilterIndex<FilterGroup>()
  readonly #hidden: HiddenAccounts
  /** Runs of the tail that groups have yet to be given. */
  #unmatched: LiveRun[] = []
  /** Bytes of messages that were published in this turn of the event loop. */
  #publishedBytes = 0
  readonly #lost: readonly LostSeqs[]
  readonly #onUnreadable: OnUnreadableRow
  readonly #onUnreadableBlock: OnUnreadableBlock
  /** Keys of damaged blocks that were told of. */
  readonly #damaged = new Set<string>()

  constructor(options: DeliveryOptions) {
    const { segments, fanout, tailBytesMax, cacheBytesMax, onUnreadableRow, onUnreadableBlock } = options
    this.#blocks = new BlockPlaces(segments)
    this.#fanout = fanout
    this.#tail = new MemoryTail(tailBytesMax, this.#blocks.blockSeq)
    this.#cache = new BlockCache(cacheBytesMax)
    this.#hidden = options.hidden ?? new HiddenAccounts()
    this.#lost = options.lost ?? []
    this.#onUnreadable = onUnreadableRow
    this.#onUnreadableBlock = onUnreadableBlock
  }

  /** The newest seq that a subscriber can have. */
  get headSeq(): number {
    return this.#tail.headSeq
  }

  /** Distinct filters that somebody is subscribed with. */
  get groupCount(): number {
    return this.#groups.size
  }

  get tailBytes(): number {
    return this.#tail.bytes
  }

  /** Whether rows that no block has take more memory than there is for the newest rows. */
  isTailFull(): boolean {
    return this.#tail.isFull()
  }

  get cacheBytes(): number {
    return this.#cache.bytes
  }

  /** Shows rows that just became visible to everyone who wants them. */
  publish(rows: readonly VisibleRow[]): void {
    if (rows.length === 0) return
    // First, so that no record of an account comes along with the event that hides it.
    for (const { row } of rows) this.#hidden.note(row)
    const run = new LiveRun(rows)
    this.#tail.push(run)
    if (this.#groups.size === 0) return
    this.#unmatched.push(run)
    this.#fanout.publishLater(() => this.#matchAll())
  }

  /** Gives what was published to the groups that want it. */
  #matchAll(): void {
    const runs = this.#unmatched
    this.#unmatched = []
    const wanting: FilterGroup[] = []
    let row = 0
    const visit = (group: FilterGroup): void => {
      if (group.want(row)) wanting.push(group)
    }
    for (const run of runs) {
      for (let i = 0; i < run.count; i++, row++) {
        if (this.#hidden.hides(run, i)) continue
        this.#index.match(run.kindAt(i), run.didAt(i), run.collectionAt(i), visit)
      }
    }
    if (wanting.length === 0) return
    const live = new LiveFrames(runs)
    if (this.#publishedBytes === 0) setImmediate(() => (this.#publishedBytes = 0))
    this.#publishedBytes += live.frames.length
    const mayRender = this.#publishedBytes <= renderedPerTurnMax
    for (const group of wanting) group.publish(live, mayRender)
  }

  /** Every row up to `seq` is in a block now, so memory may let go of it. */
  coveredByBlocks(seq: number): void {
    this.#tail.coveredByBlocks(seq)
  }

  /** Lets go of what the archive has lost rows of, so that nobody reads them from memory. */
  forgetArchived(): void {
    this.#tail.forgetCovered()
    this.#cache.clear()
  }

  /** The group of a subscription, made if it is the first of its kind. `leave` it when the subscriber has gone. */
  join(subscription: Subscription): FilterGroup {
    const key = subscriptionKey(subscription)
    let group = this.#groups.get(key)
    if (!group) {
      group = new FilterGroup(subscription, key, {
        fanout: this.#fanout,
        index: this.#index,
        headSeq: () => this.#tail.headSeq,
        read: this.read.bind(this),
      })
      this.#groups.set(key, group)
      this.#index.add(group)
    }
    return group
  }

  /** Lets go of a group without members. */
  leave(group: FilterGroup): void {
    if (group.members.size > 0 || this.#groups.get(group.key) !== group) return
    this.#groups.delete(group.key)
    this.#index.remove(group)
  }

  /** The wanted messages after a position, about `maxBytes` of them. Answers at once near the tip. */
  read(
    wants: Wants,
    afterSeq: number,
    maxBytes: number,
    rendition: Rendition = ownRendition,
  ): CatchUp | Promise<CatchUp> {
    const shown: Wants = (run, i) => !this.#hidden.hides(run, i) && wants(run, i)
    const fromTail = this.#tail.read(afterSeq, shown, maxBytes, rendition)
    return fromTail ?? this.#readBlock(shown, afterSeq, maxBytes, rendition)
  }

  /** The first seq that was witnessed at or after a time in microseconds; the next one to come when there is none. */
  async seqWitnessedAt(micros: number): Promise<number> {
    const place = this.#blocks.blockWitnessedAt(micros)
    if (!place) return this.#tail.seqWitnessedAt(micros)
    const run = await this.#run(place)
    if (!run) return place.minSeq
    const i = run.firstWitnessedAt(micros)
    return i < run.count ? run.seqAt(i) : place.maxSeq + 1
  }

  /** When the oldest row there is was witnessed, in microseconds; undefined when there is none. */
  oldestWitnessedAt(): number | undefined {
    return this.#blocks.oldestWitnessedAt ?? this.#tail.oldestWitnessedAt
  }

  async #readBlock(wants: Wants, afterSeq: number, maxBytes: number, rendition: Rendition): Promise<CatchUp> {
    const place = this.#blocks.blockAfter(afterSeq)
    const nextSeq = Math.min(place?.minSeq ?? Infinity, this.#tail.floorSeq + 1)
    const lost = this.#lost.find(({ throughSeq }) => throughSeq > afterSeq && throughSeq < nextSeq)
    if (lost) return tellLost(lost, afterSeq, rendition)
    // Between two blocks, or between the last one and the tail, there may be seqs that no row has.
    if (!place || place.minSeq > this.#tail.floorSeq) return { frames: [], lastSeq: this.#tail.floorSeq }
    const run = await this.#run(place)
    if (!run) return passOver(place, afterSeq, rendition)
    return collect(renderedAs(run, rendition), afterSeq, wants, maxBytes)
  }

  /** Undefined when the block is damaged. */
  async #run(place: BlockPlace): Promise<BlockRun | undefined> {
    try {
      return await this.#cache.get(
        place.key,
        async () => new BlockRun(await place.load(), place.maxSeq, this.#onUnreadable),
      )
    } catch (error) {
      if (!isDamage(error)) throw error
      if (!this.#damaged.has(place.key)) this.#onUnreadableBlock(place, error)
      this.#damaged.add(place.key)
      return undefined
    }
  }
}

/** What a reader gets in the place of a damaged block: a notice of what it misses. */
function passOver({ minSeq, maxSeq: lastSeq }: BlockPlace, afterSeq: number, rendition: Rendition): CatchUp {
  const firstSeq = Math.max(minSeq, afterSeq + 1)
  const message = `Events ${firstSeq} to ${lastSeq} of the archive are damaged and were left out`
  return notice({ message, firstSeq, lastSeq }, rendition)
}

/** The same in the place of rows that are gone. */
function tellLost(lost: LostSeqs, afterSeq: number, rendition: Rendition): CatchUp {
  const firstSeq = Math.max(lost.afterSeq, afterSeq) + 1
  const lastSeq = lost.throughSeq
  return notice({ message: lostMessage(firstSeq, lastSeq), firstSeq, lastSeq }, rendition)
}

function notice(
  missed: { message: string; firstSeq: number; lastSeq: number },
  rendition: Rendition,
): CatchUp {
  const frame = rendition.frame(frameText(renderInfo({ name: 'UnreadableEvents', ...missed })))
  return { frames: frame.length > 0 ? [frame] : [], lastSeq: missed.lastSeq }
}
