/**
 * The segments of one directory: any number of sealed files, then the one that is appended to.
 *
 * Always holds: seqs ascend from file to file and from block to block; a block is listed only once it is durable; a
 * block keeps its segment index and block index when its segment is sealed or rewritten; whoever reads a file goes on
 * reading it. There is one writer, and the caller keeps other processes away from the directory.
 *
 * Elsewhere: which rows become which block and when, and their seqs, which the caller assigns above lastSeq.
 */
import { join } from 'node:path'
import { ActiveSegment } from './active-segment.ts'
import type { BlockEntry } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { compactedPieces, type Compactor, wouldDrop } from './compact-segment.ts'
import { isFullDisk, SegmentError } from './errors.ts'
import { FilterCache } from './filter-cache.ts'
import { KnownSegments } from './known-segments.ts'
import { openSegments } from './open-segments.ts'
import { takePlace, writeBeside } from './rewrite-segment.ts'
import type { Row } from './row.ts'
import { SealedSegment } from './sealed-segment.ts'
import { systemDisk, type SegmentDisk } from './segment-disk.ts'
import { syncDirectoryOf } from './segment-file.ts'
import { segmentName } from './segment-name.ts'

export interface SegmentDirectoryOptions {
  readonly directory: string
  /** The active segment is due to be sealed when its blocks take this many bytes; 256 MiB by default. */
  readonly segmentBytesMax?: number
  /** It is due as well when its oldest row was witnessed this long ago; a day by default. */
  readonly segmentAgeMsMax?: number
  /** The clock, Unix milliseconds. */
  readonly now?: () => number
  /**
   * The newest row that is known to have been in a durable block. With it a start tells a block that a power cut tore
   * from damage, and refuses when rows are missing.
   */
  readonly lastSeqMin?: number
  /**
   * A file that remembers which sealed segments were checked as a whole, so that a start reads only their indexes. It
   * stands outside of the directory. Default: each start checks all.
   */
  readonly knownSegmentsPath?: string
  /** Default: that of the system. */
  readonly disk?: SegmentDisk
}

/** A durable block. The place stays right when its segment is sealed or rewritten, the entry may then be outdated. */
export interface BlockLocation {
  readonly segmentIndex: number
  readonly blockIndex: number
  readonly entry: BlockEntry
}

const segmentBytesMaxDefault = 256 * 1024 * 1024
const segmentAgeMsMaxDefault = 24 * 60 * 60 * 1000
/** Memory for DID filters of sealed segments. */
const filterBytesMax = 64 * 1024 * 1024

/** How long a file that was replaced stays open for those who looked it up and read it a little later, as plans do. */
const retireMs = 10_000

interface Retired {
  segment: SealedSegment
  timer: NodeJS.Timeout
}

/** One directory of segments. */
export class SegmentDirectory implements AsyncDisposable {
  /** Bytes cut off the active segment when it was opened: a block that was never durable, or an unfinished seal. */
  readonly bytesCut: number
  readonly #directory: string
  readonly #segmentBytesMax: number
  readonly #segmentAgeMsMax: number
  readonly #now: () => number
  readonly #disk: SegmentDisk
  readonly #filters: FilterCache
  readonly #known: KnownSegments
  #sealed: readonly SealedSegment[]
  #active: { readonly index: number; readonly segment: ActiveSegment }
  /** When the active segment was there first, or later. Its rows may be of a time when the clock was ahead. */
  #activeSinceMs: number
  #lastWrite: Promise<unknown> = Promise.resolve()
  #lastRewrite: Promise<unknown> = Promise.resolve()
  #closings: Promise<unknown> = Promise.resolve()
  readonly #retired = new Set<Retired>()

  private constructor(
    options: SegmentDirectoryOptions,
    sealed: readonly SealedSegment[],
    active: { readonly index: number; readonly segment: ActiveSegment },
    filters: FilterCache,
    known: KnownSegments,
  ) {
    this.#filters = filters
    this.#known = known
    this.#directory = options.directory
    this.#segmentBytesMax = options.segmentBytesMax ?? segmentBytesMaxDefault
    this.#segmentAgeMsMax = options.segmentAgeMsMax ?? segmentAgeMsMaxDefault
    this.#now = options.now ?? Date.now
    this.#activeSinceMs = this.#now()
    this.#disk = options.disk ?? systemDisk
    this.#sealed = sealed
    this.#active = active
    this.bytesCut = active.segment.bytesCut
  }

  /**
   * Opens a directory, creating it when it is missing: checks every sealed segment and their order, recovers the
   * active one, removes leftovers of unfinished writes. Throws SegmentError when something is damaged.
   */
  static async open(options: SegmentDirectoryOptions): Promise<SegmentDirectory> {
    const { directory, lastSeqMin, disk = systemDisk } = options
    await disk.mkdir(directory, { recursive: true })
    await syncDirectoryOf(directory, disk)
    const filters = new FilterCache(filterBytesMax)
    const known = await KnownSegments.open(options.knownSegmentsPath)
    const { sealed, active } = await openSegments(directory, { disk, lastSeqMin, filters, known })
    await known.save()
    return new SegmentDirectory(options, sealed, active, filters, known)
  }

  /** The sealed segments in index order. The array is replaced, never changed. */
  get sealed(): readonly SealedSegment[] {
    return this.#sealed
  }

  /** The durable blocks of the active segment. */
  get activeBlocks(): readonly BlockEntry[] {
    return this.#active.segment.blocks
  }

  /** Highest seq of any durable row, 0 without one; compaction does not lower it. */
  get lastSeq(): number {
    return this.#sealed.reduce(
      (last, { header }) => Math.max(last, header.maxSeq),
      this.#active.segment.lastSeq,
    )
  }

  /**
   * Appends one block, and resolves once it is durable; seals the active segment first when that is due.
   * Calls queue. Throws SegmentError `bad-row` or `bad-block` for rows that cannot be written, and then nothing was;
   * after a storage error, which is passed on, every further call throws `failed` until the directory is opened anew.
   */
  append(rows: readonly Row[]): Promise<BlockEntry> {
    return this.#inTurn(async () => {
      const firstSeq = rows[0]?.seq ?? 0
      if (rows.length > 0 && firstSeq <= this.lastSeq) {
        throw new SegmentError('bad-row', `seq ${firstSeq} does not follow ${this.lastSeq}`)
      }
      if (this.#isDue()) await this.#rotate()
      return this.#active.segment.appendBlock(rows)
    })
  }

  /** Seals the active segment when its size or age calls for it. To be called every minute or so. */
  rotateIfDue(): Promise<SealedSegment | undefined> {
    return this.#inTurn(async () => (this.#isDue() ? this.#rotate() : undefined))
  }

  /** Seals the active segment now and starts the next; does nothing when it has no rows. */
  rotate(): Promise<SealedSegment | undefined> {
    return this.#inTurn(async () => (this.activeBlocks.length > 0 ? this.#rotate() : undefined))
  }

  /**
   * Rewrites a sealed segment without the rows that go (segment-format.md 10.1), beside appends and reads. When none goes
   * the file is left as it is. Calls queue. Throws SegmentError `no-such-block` for no sealed segment, and for damage;
   * `no-room` when the disk is too full for the new file, which changes nothing.
   */
  compact(segmentIndex: number, compactor: Compactor): Promise<{ rowsDropped: number; bytesFreed: number }> {
    const result = this.#lastRewrite.then(() => this.#compact(segmentIndex, compactor))
    this.#lastRewrite = result.catch(() => undefined)
    return result
  }

  /** The first block with rows whose envelope reaches above `afterSeq`, sealed or not; undefined without one. */
  firstBlockAfter(afterSeq: number): BlockLocation | undefined {
    for (const { index, header, blocks } of this.#sealed) {
      if (header.maxSeq <= afterSeq) continue
      const location = firstBlockIn(index, blocks, afterSeq)
      if (location) return location
    }
    return firstBlockIn(this.#active.index, this.activeBlocks, afterSeq)
  }

  /** Reads a block, wherever it is by now. Throws SegmentError `no-such-block`, `bad-frame`, `bad-block`, `closed`. */
  async readBlock({ segmentIndex, blockIndex }: Omit<BlockLocation, 'entry'>): Promise<BlockView> {
    const { index, segment: active } = this.#active
    const segment = segmentIndex === index ? active : this.findSealed(segmentIndex)
    if (!segment) throw new SegmentError('no-such-block', `no segment ${segmentIndex} in ${this.#directory}`)
    return segment.readBlock(blockIndex)
  }

  /** The sealed segment with this index; names are turned into indices by parseSegmentName. */
  findSealed(segmentIndex: number): SealedSegment | undefined {
    return this.#sealed.find(({ index }) => index === segmentIndex)
  }

  /** Waits for the write in progress and for readers. The active segment stays active. */
  async close(): Promise<void> {
    await Promise.all([this.#lastWrite, this.#lastRewrite])
    for (const { segment, timer } of this.#retired) {
      clearTimeout(timer)
      this.#closings = Promise.all([this.#closings, segment.close()])
    }
    await Promise.all([
      this.#active.segment.close(),
      ...this.#sealed.map((segment) => segment.close()),
      this.#closings,
    ])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #isDue(): boolean {
    const { isSealed, blocks, blockBytes } = this.#active.segment
    const oldest = blocks[0]
    if (isSealed || !oldest) return isSealed
    const nowMs = this.#now()
    this.#activeSinceMs = Math.min(this.#activeSinceMs, nowMs)
    const ageMs = nowMs - Math.min(oldest.minWitnessedAt / 1000, this.#activeSinceMs)
    return blockBytes >= this.#segmentBytesMax || ageMs >= this.#segmentAgeMsMax
  }

  /** Seals and starts the next segment. An active segment that is sealed already comes from a rotation cut short. */
  async #rotate(): Promise<SealedSegment> {
    const { index, segment } = this.#active
    if (!segment.isSealed) await segment.seal()
    const sealed = await SealedSegment.open(segment.path, this.#filters, this.#known)
    try {
      const next = await ActiveSegment.create(join(this.#directory, segmentName(index + 1)), this.#disk)
      this.#active = { index: index + 1, segment: next }
      this.#activeSinceMs = this.#now()
    } catch (error) {
      await sealed.close()
      throw error
    }
    this.#sealed = [...this.#sealed, sealed]
    this.#closings = Promise.all([this.#closings, segment.close()])
    await this.#known.save()
    return sealed
  }

  async #compact(
    segmentIndex: number,
    compactor: Compactor,
  ): Promise<{ rowsDropped: number; bytesFreed: number }> {
    const segment = this.findSealed(segmentIndex)
    if (!segment) throw new SegmentError('no-such-block', `no sealed segment ${segmentIndex}`)
    if (!(await wouldDrop(segment, compactor))) return { rowsDropped: 0, bytesFreed: 0 }
    const path = join(this.#directory, segment.name)
    let rowsDropped = 0
    const pieces = compactedPieces(segment, compactor, (rows) => (rowsDropped += rows))
    try {
      await writeBeside(path, pieces, { isSealed: true, replacedAtMs: segment.modifiedAtMs }, this.#disk)
    } catch (error) {
      await this.#disk.rm(`${path}.tmp`).catch(() => undefined)
      if (!isFullDisk(error)) throw error
      throw new SegmentError('no-room', `the disk has no room to rewrite ${segment.name}`, { cause: error })
    }
    await takePlace(path, this.#disk)
    const replacement = await SealedSegment.open(path, this.#filters, this.#known)
    this.#sealed = this.#sealed.map((each) => (each === segment ? replacement : each))
    this.#retire(segment)
    await this.#known.save()
    return { rowsDropped, bytesFreed: segment.fileBytes - replacement.fileBytes }
  }

  /** Closes a segment that was replaced, when those who hold it have had time to begin their reads. */
  #retire(segment: SealedSegment): void {
    const retired: Retired = {
      segment,
      timer: setTimeout(() => {
        this.#retired.delete(retired)
        this.#closings = Promise.all([this.#closings, segment.close()])
      }, retireMs).unref(),
    }
    this.#retired.add(retired)
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastWrite.then(work)
    // The caller gets the failure; the next in turn only waits for the end.
    this.#lastWrite = result.catch(() => undefined)
    return result
  }
}

function firstBlockIn(
  segmentIndex: number,
  blocks: readonly BlockEntry[],
  afterSeq: number,
): BlockLocation | undefined {
  const blockIndex = blocks.findIndex(({ maxSeq, eventCount }) => maxSeq > afterSeq && eventCount > 0)
  const entry = blocks[blockIndex]
  return entry && { segmentIndex, blockIndex, entry }
}
