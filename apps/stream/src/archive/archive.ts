/**
 * Keeps rows: first in a write-ahead log, which makes them durable and gives them their seq, then in blocks of the
 * active segment, then in sealed segments.
 *
 * Always holds: a row is visible only when it is durable, in the order of its seq; every durable row is in a block or
 * in the log, and after a stop at any point each is read back once; a file of the log goes only when the saved states
 * of repositories account for its rows and say that they are in blocks.
 * Deliberately elsewhere: what rows say (`ingest`), how they reach subscribers (`delivery`), the file format
 * (`@tributary/segment`).
 */
import { join } from 'node:path'
import { EventLog, type EventLogOptions, LogCorruptError } from '@tributary/event-log'
import { systemClock, type RepeatingClock } from '@tributary/lanes'
import { type Row, SegmentError } from '@tributary/segment'
import { SegmentDirectory, type SealedSegment, type SegmentDisk } from '@tributary/segment/node'
import { BlockWriter } from './block-writer.ts'
import { decodeWalRow, encodeWalHead, type RowDraft } from './wal-row.ts'

/** A row before it has a seq, with what its message says of its record where that was made already (`recordContent`). */
export interface NewRow {
  readonly draft: RowDraft
  readonly content?: Uint8Array
}

/** A row that became visible. */
export interface VisibleRow {
  readonly row: Row
  readonly content?: Uint8Array
}

/** Where a row comes from: an event of the relay, or a repository that was read as a whole. */
export interface RowOrigin {
  /** Number of the event at the relay; 0 when there is none. */
  readonly seq: number
  readonly epoch: number
  readonly isOfBackfill?: boolean
}

/** What saved states of repositories say of rows. */
export interface Covered {
  /** The states account for rows up to this seq. */
  readonly appliedSeq: number
  /** Rows up to this seq were in durable blocks. Below 0: it is not known. */
  readonly blockSeq: number
}

export interface ArchiveOptions {
  directory: string
  /** What the saved states said at the last save. */
  covered: Covered
  segmentBytesMax: number
  segmentAgeMsMax: number
  /** Bytes after which a new file of the log is begun. Default 16 MiB. */
  logFileBytesMax?: number
  /** Longest time that a row waits for its block, in milliseconds. Default 30,000. */
  blockAgeMsMax?: number
  /** Called when a disk failed. Nothing can be accepted any more. */
  onFailure: (error: Error) => void
  /** Default: that of the system. */
  disk?: { log: NonNullable<EventLogOptions['disk']>; segments: SegmentDisk }
  /** Default: that of the machine. */
  clock?: RepeatingClock
}

/** Rows that the log held when it was opened. */
export interface RecoveredRows {
  /** Rows that no block has. */
  pending: VisibleRow[]
  /** Rows of events that the saved states do not account for. */
  unapplied: Row[]
  /** The same, of backfills. */
  unappliedOfBackfill: Row[]
  /** The newest row of all, 0 when there is none. */
  newestSeq: number
  /** The seq that the next row gets. */
  nextSeq: number
  /** Bytes of a torn block, or of a seal that was not finished, cut off the active segment. */
  segmentBytesCut: number
}

/** Most bytes of rows that were appended to the log and are not visible yet. */
const pendingBytesMax = 16 * 1024 * 1024
/** What the log calls a source. */
const relaySource = 0
const backfillSource = 1
const walFileBytesMax = 16 * 1024 * 1024
/** Small, since an unclean stop skips what is left of a lease and operators read these numbers. */
const walLeaseSize = 10_000
const rotateCheckMs = 60_000

/** The state database knows of rows that the archive does not have: one of the two is not of this directory. */
export class ArchiveMismatchError extends Error {
  override readonly name = 'ArchiveMismatchError'
}

/** Something durable is damaged. Nothing was changed. */
class ArchiveDamagedError extends Error {
  override readonly name = 'ArchiveDamagedError'
}

const advice =
  'nothing was changed; `tributary stream archive verify` says what is damaged, and `tributary stream archive repair` keeps what can be read'

export class Archive {
  readonly #options: ArchiveOptions
  readonly #log: EventLog
  readonly #segments: SegmentDirectory
  readonly #blocks: BlockWriter
  readonly #visibleListeners: ((rows: readonly VisibleRow[]) => void)[] = []
  readonly #blockListeners: ((seq: number) => void)[] = []
  readonly #roomListeners: (() => void)[] = []
  readonly #clock: RepeatingClock
  readonly #rotateTimer: Disposable
  /** Appended and not visible yet, in order. */
  #unseen: NewRow[] = []
  #appendedSeq: number
  /** What the saved states say of rows, as of the last save. */
  #covered: Covered
  /** How many read the log, and need all of it. */
  #logKeepers = 0
  #lastWitnessedAt: number
  #hasTooLittleDisk = false
  #isTailFull = (): boolean => false

  /**
   * Opens or creates the archive of a directory and reads back what a stop left in the log.
   * @throws ArchiveMismatchError, and ArchiveDamagedError when something durable is damaged.
   */
  static async open(options: ArchiveOptions): Promise<{ archive: Archive; recovered: RecoveredRows }> {
    const { directory, segmentBytesMax, segmentAgeMsMax, covered, disk, clock = systemClock } = options
    await using parts = new AsyncDisposableStack()
    const segments = await orAdvise(() =>
      SegmentDirectory.open({
        directory: join(directory, 'segments'),
        knownSegmentsPath: join(directory, 'known-segments.json'),
        segmentBytesMax,
        segmentAgeMsMax,
        now: () => clock.nowMs(),
        ...(covered.blockSeq < 0 ? {} : { lastSeqMin: covered.blockSeq }),
        ...(disk ? { disk: disk.segments } : {}),
      }),
    )
    parts.use(segments)
    const log = await orAdvise(() =>
      EventLog.open({
        directory: join(directory, 'log'),
        fileBytesMax: options.logFileBytesMax ?? walFileBytesMax,
        // Readers are served by the memory tail and by blocks; nobody reads the log but a start.
        tailBytesMax: 0,
        leaseSize: walLeaseSize,
        floorSeq: segments.lastSeq + 1,
        ...(disk ? { disk: disk.log } : {}),
        ...(options.clock && { clock: { wallMs: () => clock.nowMs(), elapsedMs: () => clock.nowMs() } }),
      }),
    )
    parts.defer(() => log.close())
    const recovered = await recover(log, segments, covered.appliedSeq)
    // Rows that were to leave the log before the stop leave it, though no row may follow. No block is written meanwhile.
    await log.endFile()
    await log.dropThrough(Math.min(covered.appliedSeq, covered.blockSeq))
    const archive = new Archive(options, log, segments, recovered.pending)
    parts.move()
    return { archive, recovered }
  }

  private constructor(
    options: ArchiveOptions,
    log: EventLog,
    segments: SegmentDirectory,
    pending: readonly VisibleRow[],
  ) {
    const { clock = systemClock } = options
    this.#options = options
    this.#clock = clock
    this.#log = log
    this.#segments = segments
    this.#covered = options.covered
    this.#appendedSeq = newestSeq(log, segments)
    this.#lastWitnessedAt = pending.at(-1)?.row.witnessedAt ?? newestWitnessedAt(segments)
    this.#blocks = new BlockWriter({
      segments,
      ageMsMax: options.blockAgeMsMax ?? 30_000,
      isPressed: () => this.#isTailFull(),
      onWritten: (seq) => this.#onBlockWritten(seq),
      onFailure: options.onFailure,
      clock,
    })
    this.#blocks.add(pending.map(({ row }) => row))
    log.onVisible((slices) => slices.forEach((slice) => this.#show(slice)))
    log.onFailure(options.onFailure)
    this.#rotateTimer = clock.every(rotateCheckMs, () => this.#rotateIfDue())
  }

  /** The newest row there is, durable or not. The next one may get a much higher seq: a kill leaves a gap. */
  get appendedSeq(): number {
    return this.#appendedSeq
  }

  /** The newest row that is in a block. */
  get blockSeq(): number {
    return this.#segments.lastSeq
  }

  /** Rows that are visible and in no block yet. */
  get pendingRows(): number {
    return this.#blocks.pendingRows
  }

  get segments(): SegmentDirectory {
    return this.#segments
  }

  /**
   * Whether more rows should come. They should not while more is under way to the disk than memory should hold, or the disk
   * has too little room for them. Rows that wait for a block are written at once where that makes room.
   */
  askForRoom(): boolean {
    const isLogFull = this.#log.pendingBytes > pendingBytesMax
    return this.#blocks.askForRoom() && !isLogFull && !this.#hasTooLittleDisk
  }

  /** @param isTailFull whether rows that no block has take too much memory where they are kept for readers. */
  boundTail(isTailFull: () => boolean): void {
    this.#isTailFull = isTailFull
  }

  /** Called with rows that became visible, in order. */
  onVisible(listener: (rows: readonly VisibleRow[]) => void): void {
    this.#visibleListeners.push(listener)
  }

  /** Called with the newest seq that is in a block, whenever one was written. */
  onBlockWritten(listener: (seq: number) => void): void {
    this.#blockListeners.push(listener)
  }

  /** Called whenever something reached the disk, or its room has become too little, or enough. */
  onRoom(listener: () => void): void {
    this.#roomListeners.push(listener)
  }

  /** Whether the disk has too little room for more rows. What was read before is written all the same. */
  setTooLittleDisk(isTooLittle: boolean): void {
    this.#hasTooLittleDisk = isTooLittle
    for (const listener of this.#roomListeners) listener()
  }

  /** Microseconds since 1970; never goes back, whatever the clock does. */
  witnessedNow(): number {
    this.#lastWitnessedAt = Math.max(this.#lastWitnessedAt, this.#clock.nowMs() * 1000)
    return this.#lastWitnessedAt
  }

  /** Gives a row its seq. The row's payload is copied. @throws LogWriteError after a disk fault. */
  append(row: NewRow, upstream: RowOrigin): number {
    const { draft } = row
    const meta = {
      kind: draft.kind,
      account: 0n,
      source: upstream.isOfBackfill ? backfillSource : relaySource,
      epoch: upstream.epoch & 0xffff,
      upstreamSeq: upstream.seq,
    }
    this.#appendedSeq = this.#log.append(meta, encodeWalHead(draft), draft.payload)
    this.#unseen.push(row)
    return this.#appendedSeq
  }

  /** Resolves when every row appended so far is durable. */
  whenDurable(): Promise<void> {
    return this.#log.flush()
  }

  /**
   * The saved states account for rows up to `appliedSeq`, and say that rows up to `blockSeq` are in blocks. The log no
   * longer has to hold rows for which both are true.
   */
  stateSaved(covered: Covered): void {
    this.#covered = covered
    if (this.#logKeepers > 0) return
    const { appliedSeq, blockSeq } = covered
    void this.#log.dropThrough(Math.min(appliedSeq, blockSeq))
  }

  /**
   * Has the log let go of all that it holds now as soon as it may, because rows have left the segments. Rows that no block
   * has, or that the saved states do not account for, keep it until then.
   */
  async forgetLogged(): Promise<void> {
    await this.#log.endFile()
    this.stateSaved(this.#covered)
  }

  /** The log drops nothing while something is done, and then what it may. */
  async keepingLog<T>(work: () => Promise<T>): Promise<T> {
    this.#logKeepers++
    try {
      return await work()
    } finally {
      this.#logKeepers--
      this.stateSaved(this.#covered)
    }
  }

  /** Writes what is pending into a block and seals the active segment. Undefined when there are no rows to seal. */
  async seal(): Promise<SealedSegment | undefined> {
    await this.#log.flush()
    await this.#blocks.flush()
    try {
      return await this.#segments.rotate()
    } catch (error) {
      // The caller may go on without the segment. The archive does not.
      this.#options.onFailure(error as Error) // only a failed disk makes it throw
      throw error
    }
  }

  /** Makes everything durable, writes the last block, and closes. */
  async close(): Promise<void> {
    this.#rotateTimer[Symbol.dispose]()
    await using parts = new AsyncDisposableStack()
    parts.defer(() => this.#segments.close())
    parts.defer(() => this.#log.close())
    parts.defer(() => this.#blocks.close())
    await this.#log.flush()
  }

  #show(slice: { count: number; seqAt(i: number): number; payloadAt(i: number): Buffer }): void {
    const newRows = this.#unseen.splice(0, slice.count)
    const rows = newRows.map(({ draft, content }, i): VisibleRow => {
      // The log's copy of the payload: the one that was appended is a part of the relay's socket buffer.
      const record = slice.payloadAt(i)
      const payload = record.subarray(record.length - draft.payload.length)
      const row: Row = { ...draft, seq: slice.seqAt(i), payload }
      return content ? { row, content } : { row }
    })
    for (const listener of this.#visibleListeners) listener(rows)
    this.#blocks.add(rows.map(({ row }) => row))
    for (const listener of this.#roomListeners) listener()
  }

  #onBlockWritten(seq: number): void {
    for (const listener of this.#blockListeners) listener(seq)
    for (const listener of this.#roomListeners) listener()
  }

  #rotateIfDue(): void {
    // Only a failed disk makes it throw, and then errors only.
    this.#segments.rotateIfDue().catch((error: unknown) => this.#options.onFailure(error as Error))
  }
}

async function orAdvise<T>(open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (cause) {
    if (!(cause instanceof SegmentError || cause instanceof LogCorruptError)) throw cause
    throw new ArchiveDamagedError(`${cause.message}: ${advice}`, { cause })
  }
}

/** Reads back the rows that only the log has, or that the saved states do not account for. */
async function recover(
  log: EventLog,
  segments: SegmentDirectory,
  appliedSeq: number,
): Promise<RecoveredRows> {
  const blockSeq = segments.lastSeq
  const lastSeq = newestSeq(log, segments)
  if (appliedSeq > lastSeq) {
    throw new ArchiveMismatchError(
      `the state database accounts for row ${appliedSeq}, the archive ends at ${lastSeq}`,
    )
  }
  const recovered: RecoveredRows = {
    pending: [],
    unapplied: [],
    unappliedOfBackfill: [],
    newestSeq: Math.max(log.files.at(-1)?.lastSeq ?? 0, blockSeq),
    nextSeq: log.nextSeq,
    segmentBytesCut: segments.bytesCut,
  }
  for await (const slice of log.replay(Math.min(blockSeq, appliedSeq))) {
    for (let i = 0; i < slice.count; i++) {
      const row = decodeWalRow(slice.seqAt(i), slice.kindAt(i), slice.payloadAt(i))
      if (row.seq > blockSeq) recovered.pending.push({ row })
      if (row.seq <= appliedSeq) continue
      if (slice.metaAt(i).source === backfillSource) recovered.unappliedOfBackfill.push(row)
      else recovered.unapplied.push(row)
    }
  }
  return recovered
}

function newestSeq(log: EventLog, segments: SegmentDirectory): number {
  return Math.max(log.visibleSeq, segments.lastSeq)
}

function newestWitnessedAt(segments: SegmentDirectory): number {
  const sealed = segments.sealed.reduce((newest, { header }) => Math.max(newest, header.maxWitnessedAt), 0)
  return segments.activeBlocks.reduce((newest, block) => Math.max(newest, block.maxWitnessedAt), sealed)
}
