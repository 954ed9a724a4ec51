/**
 * An append-only, ordered, durable log of opaque payloads: the buffer between a service's writer and all its readers.
 *
 * Always holds: a seq is given out once, ever; records become visible in seq order, and (with `visible: 'durable'`)
 * only when a sync has returned; whatever was visible is read back after a kill, and after a power cut too.
 * The group commit has no timer: the next write starts when the last has returned.
 * A start cuts what was being written when the last one ended, and refuses when anything older is damaged.
 * Deliberately elsewhere: what payloads mean, who may read them, and who is told (the `fanout` package).
 */
import { join } from 'node:path'
import type Database from 'better-sqlite3'
import { Block, BlockBuilder, type RecordMeta } from './block.ts'
import { systemClock, type Clock } from './clock.ts'
import { createCrc } from './crc.ts'
import { systemDisk, type Disk } from './disk.ts'
import { LogCorruptError, LogWriteError } from './errors.ts'
import { syncPath } from './durable-file.ts'
import { limitAtStart, readLease } from './lease.ts'
import { lockDirectory } from './lock.ts'
import { LogDisk, type WrittenBlock } from './log-disk.ts'
import { LogFiles, type LogFile } from './log-files.ts'
import { LogSlice } from './log-slice.ts'
import { MemoryTail } from './memory-tail.ts'
import { OpenTime } from './open-time.ts'
import { blockSearchOf } from './secret.ts'

export interface EventLogOptions {
  directory: string
  /** Bytes after which a new file is begun. Default 256 MiB, or an eighth of `retentionBytes` when that is less. */
  fileBytesMax?: number
  /** Milliseconds after which a new file is begun. Default one hour. */
  fileAgeMsMax?: number
  /**
   * How long a file is kept after its newest record was written, in milliseconds. Only time in which the log is open counts,
   * and the machine's date has no part in it. Default: kept until dropped.
   */
  retentionMs?: number
  /** The oldest files go when all files together are larger. Default: no bound. */
  retentionBytes?: number
  /** Bytes of visible records that are kept in memory for readers near the tip. Default 16 MiB. */
  tailBytesMax?: number
  /** Sequence numbers that are reserved at a time. Default 100,000. */
  leaseSize?: number
  /** No seq below this is given out. Raised by an operator after restoring a backup. Default 1. */
  floorSeq?: number
  /** When records are shown to readers: after the sync (default), or already after the write. */
  visible?: 'durable' | 'written'
  /** Told the length of every sync in milliseconds. */
  onSync?: (syncMs: number) => void
  /** Default: that of the machine. */
  clock?: Clock
  /** Default: that of the machine. */
  disk?: Disk
}

/** What a log is made of. */
interface LogParts {
  lock: Database.Database
  disk: LogDisk
  files: LogFiles
  clock: Clock
  openTime: OpenTime
}

const blockPayloadBytes = 64 * 1024
const commitBytesMax = 4 * 1024 * 1024
const fileBytesDefault = 256 * 1024 * 1024

export class EventLog {
  readonly #options: EventLogOptions
  readonly #lock: Database.Database
  readonly #disk: LogDisk
  readonly #files: LogFiles
  readonly #clock: Clock
  readonly #openTime: OpenTime
  readonly #builder = new BlockBuilder()
  readonly #tail: MemoryTail
  readonly #visibleListeners: ((slices: LogSlice[]) => void)[] = []
  readonly #durableListeners: ((seq: number) => void)[] = []
  readonly #waiters: { seq: number; resolve: () => void; reject: (error: Error) => void }[] = []
  #neededAbove: () => number = () => Infinity
  #failureListener: ((error: LogWriteError) => void) | undefined
  #sealedBlocks: Buffer[] = []
  #nextSeq: number
  #visibleSeq: number
  #durableSeq: number
  #submittedSeq: number
  #pendingBytes = 0
  #lastTimeMs: number
  /** Records up to this seq were gone when the log was opened. */
  readonly #goneSeq: number
  /** Whether a file was begun since retention was applied. */
  #hasRolled = false
  #isWriting = false
  /** Calls of `endFile` that wait. The next write waits for them: otherwise a busy log would keep them waiting. */
  #endings = 0
  /** The write under way, or the last one. Rejects only for a fault of a listener. */
  #written: Promise<void> = Promise.resolve()
  /** The save of the open time that is under way, or the last one. Never rejects. */
  #saved: Promise<void> = Promise.resolve()
  #isScheduled = false
  #isClosed = false
  #failure: LogWriteError | undefined

  /**
   * Opens or creates the log of a directory, cutting a torn tail.
   * @throws LogCorruptError when bytes that were durable are damaged, or a record stands above the lease.
   * @throws LogLockedError when another process has the log open.
   */
  static async open(options: EventLogOptions): Promise<EventLog> {
    ;(options.disk ?? systemDisk).mkdirSync(options.directory, { recursive: true })
    const lock = lockDirectory(options.directory)
    try {
      return await EventLog.#openLocked(options, lock)
    } catch (error) {
      lock.close()
      throw error
    }
  }

  static async #openLocked(options: EventLogOptions, lock: Database.Database): Promise<EventLog> {
    const { directory, disk = systemDisk, clock = systemClock } = options
    const crc = await createCrc()
    const lease = readLease(directory)
    // Nothing is acknowledged before there is a lease, so the directory is durable by then.
    if (!lease) syncPath(disk, directory)
    const search = blockSearchOf(directory, lease, crc)
    const openTime = new OpenTime({ directory, disk, clock, crc })
    const files = new LogFiles({ directory, disk, crc, synced: lease?.synced, search, openTime })
    const last = files.all.at(-1)
    const lastSeq = last?.lastSeq ?? 0
    const leaseLimit = lease?.limit ?? 0
    if (last && lastSeq >= leaseLimit) {
      const what = lease
        ? `seq ${lastSeq} stands above the lease of ${leaseLimit}`
        : 'the file lease is missing'
      throw new LogCorruptError(join(directory, last.name), last.bytes, what)
    }
    const reservedLimit = lease ? limitAtStart(lease, clock.wallMs()) : 0
    const nextSeq = Math.max(reservedLimit, lastSeq + 1, options.floorSeq ?? 1)
    const logDisk = new LogDisk({
      directory,
      disk,
      crc,
      clock,
      leaseSize: options.leaseSize ?? 100_000,
      leaseLimit: reservedLimit,
      secret: search.secret,
      fileBytesMax:
        options.fileBytesMax ??
        Math.min(fileBytesDefault, Math.floor((options.retentionBytes ?? Infinity) / 8)),
      fileAgeMsMax: options.fileAgeMsMax ?? 3_600_000,
      current: last && { name: last.name, index: { ...last, points: last.points.slice() } },
      onWritten: options.visible === 'written' ? (blocks) => log.#show(blocks) : undefined,
      onFault: (error) => log.#fail(error),
    })
    const log: EventLog = new EventLog(options, { lock, disk: logDisk, files, clock, openTime }, nextSeq)
    return log
  }

  private constructor(options: EventLogOptions, parts: LogParts, nextSeq: number) {
    const { files } = parts
    this.#options = options
    this.#lock = parts.lock
    this.#disk = parts.disk
    this.#files = files
    files.onFault = (error) => this.#fail(error)
    this.#clock = parts.clock
    this.#openTime = parts.openTime
    this.#tail = new MemoryTail(options.tailBytesMax ?? 16 * 1024 * 1024)
    this.#nextSeq = nextSeq
    this.#submittedSeq = nextSeq - 1
    this.#lastTimeMs = files.all.at(-1)?.lastTimeMs ?? 0
    this.#goneSeq = (files.all[0]?.firstSeq ?? nextSeq) - 1
    // Without records there is nothing to read below the next one.
    this.#visibleSeq = files.all.at(-1)?.lastSeq ?? this.#goneSeq
    this.#durableSeq = this.#visibleSeq
  }

  /** The seq that the next append gets. */
  get nextSeq(): number {
    return this.#nextSeq
  }

  /** The newest seq that readers can see; in a log without records the one before the next. */
  get visibleSeq(): number {
    return this.#visibleSeq
  }

  /** The newest seq that no power cut can take back. */
  get durableSeq(): number {
    return this.#durableSeq
  }

  /** Everything up to this seq is gone from the log; a reader below it has missed records. */
  get lastDeletedSeq(): number {
    return Math.max(this.#goneSeq, this.#files.lastDeletedSeq)
  }

  /** The seq of the oldest record, or the next one to be written when the log is empty. */
  get oldestSeq(): number {
    return this.#files.all[0]?.firstSeq ?? this.#nextSeq
  }

  /** Bytes appended and not yet durable. A writer that sees this grow stops taking in more. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** Bytes of all files. */
  get bytes(): number {
    return this.#files.bytes
  }

  /** Oldest first. */
  get files(): readonly Readonly<LogFile>[] {
    return this.#files.all
  }

  /** Copies a record in and gives it its seq. It becomes visible later, in order. @throws LogWriteError after a disk fault, or the end. */
  append(meta: RecordMeta, ...parts: Uint8Array[]): number {
    if (this.#failure) throw this.#failure
    if (this.#isClosed) throw new LogWriteError('the log is closed')
    const seq = this.#nextSeq++
    const before = this.#builder.payloadLength
    // A date that is set back does not make a record older than the one before it.
    this.#lastTimeMs = Math.max(this.#lastTimeMs, this.#clock.wallMs())
    this.#builder.append(seq, this.#lastTimeMs, meta, parts)
    this.#pendingBytes += this.#builder.payloadLength - before
    if (this.#builder.payloadLength >= blockPayloadBytes) this.#sealedBlocks.push(this.#builder.take())
    this.#schedule()
    return seq
  }

  /** Called with what just became visible, in order. One call per group commit. */
  onVisible(listener: (slices: LogSlice[]) => void): void {
    this.#visibleListeners.push(listener)
  }

  /** Called with the newest durable seq after every sync. */
  onDurable(listener: (seq: number) => void): void {
    this.#durableListeners.push(listener)
  }

  /** Called once if the disk fails. The owner stops: nothing can be accepted any more. */
  onFailure(listener: (error: LogWriteError) => void): void {
    this.#failureListener = listener
  }

  /** Resolves when everything appended so far is durable. @throws LogWriteError */
  async flush(): Promise<void> {
    if (this.#failure) throw this.#failure
    if (this.#isIdle) return
    const seq = this.#nextSeq - 1
    await new Promise<void>((resolve, reject) => this.#waiters.push({ seq, resolve, reject }))
  }

  /** The records after `afterSeq`, from memory; undefined when memory does not reach back that far. */
  readMemory(afterSeq: number, maxBytes: number): LogSlice[] | undefined {
    return this.#tail.read(afterSeq, maxBytes)
  }

  /**
   * The records after `afterSeq` in order, about `maxBytes` of them and at least one; empty at the tip.
   * A reader below `lastDeletedSeq` gets what is left; the caller has to tell it so.
   */
  async read(afterSeq: number, maxBytes: number): Promise<LogSlice[]> {
    if (afterSeq >= this.#visibleSeq) return []
    return this.#tail.read(afterSeq, maxBytes) ?? (await this.#files.read(afterSeq, maxBytes))
  }

  /** Every record after `afterSeq`, oldest first: for rebuilding state at start. */
  async *replay(afterSeq: number): AsyncGenerator<LogSlice> {
    for (let position = afterSeq; ;) {
      const slices = await this.read(position, 1024 * 1024)
      if (slices.length === 0) return
      yield* slices
      position = slices.at(-1)?.lastSeq ?? position
    }
  }

  /** Retention keeps all records above a seq, whatever their age or size, because their owner still needs them. */
  keepAbove(seq: () => number): void {
    this.#neededAbove = seq
  }

  /**
   * Deletes the oldest files whose newest record is past the retention window, or that are over the bytes allowed.
   * The file being written stays, and those that are needed (`keepAbove`). Done by itself when a file is finished; the
   * owner calls it now and then for a log that is quiet. Readers have none of the files any more when it returns; they are
   * gone from the disk when it resolves, but for those that are being read.
   */
  async applyRetention(): Promise<void> {
    const nowMs = this.#openTime.ms
    const { retentionMs = Infinity, retentionBytes = Infinity } = this.#options
    let excessBytes = this.#files.bytes - retentionBytes
    const neededAbove = this.#neededAbove()
    const isPast = (file: LogFile): boolean => {
      if (file.lastSeq > neededAbove) return false
      if (nowMs - file.writtenAtMs <= retentionMs && excessBytes <= 0) return false
      excessBytes -= file.bytes
      return true
    }
    const deleted = this.#delete(isPast)
    if (retentionMs !== Infinity && this.#openTime.isDue && !this.#isClosed) {
      const save = async (): Promise<void> => await this.#openTime.save(this.#files.all)
      this.#saved = this.#saved.then(async () => await this.#guard(save))
    }
    await deleted
  }

  /**
   * Ends the file that is being written, so that `dropThrough` can delete it too. Records that are appended meanwhile go
   * into the next one.
   */
  async endFile(): Promise<void> {
    this.#endings++
    try {
      // After a failure nothing is under way any more.
      while (this.#isWriting && !this.#failure) await this.#written
    } finally {
      this.#endings--
    }
    if (this.#failure || this.#isClosed) return
    this.#isWriting = true
    this.#written = this.#endFile()
    await this.#written
  }

  async #endFile(): Promise<void> {
    try {
      await this.#disk.endFile()
    } catch (error) {
      this.#fail(error)
      return
    }
    this.#isWriting = false
    if (this.#isIdle) for (const { resolve } of this.#waiters.splice(0)) resolve()
    this.#submit()
  }

  /**
   * Deletes the files all of whose records are at or below `seq`. The file being written stays. It returns and resolves as
   * `applyRetention` does.
   */
  async dropThrough(seq: number): Promise<void> {
    await this.#delete((file) => file.lastSeq <= seq)
  }

  /**
   * Makes everything durable and ends the log. A later start continues without a gap in the numbers.
   * @throws LogWriteError when the disk failed since the last append.
   */
  async close(): Promise<void> {
    try {
      while (!this.#failure && !this.#isIdle) await this.flush()
    } finally {
      this.#isClosed = true
      // The log may have failed elsewhere meanwhile: no file is closed under a write.
      await this.#written
      await this.#release()
    }
  }

  async #release(): Promise<void> {
    try {
      await this.#saved
      await this.#disk.close(this.#failure ? undefined : this.#nextSeq)
      if (this.#options.retentionMs !== undefined && !this.#failure)
        await this.#openTime.save(this.#files.all)
    } catch (cause) {
      throw writeError(cause)
    } finally {
      await this.#files.close()
      this.#lock.close()
    }
  }

  /** True when everything that was appended is durable. */
  get #isIdle(): boolean {
    return !this.#isWriting && this.#builder.count === 0 && this.#sealedBlocks.length === 0
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isWriting) return
    this.#isScheduled = true
    // Records that the same callback appends go along. Those that others append meanwhile go with the next write.
    process.nextTick(() => {
      this.#isScheduled = false
      this.#submit()
    })
  }

  #submit(): void {
    if (this.#isWriting || this.#endings > 0 || this.#failure) return
    if (this.#builder.count > 0) this.#sealedBlocks.push(this.#builder.take())
    const blocks: Buffer[] = []
    for (let bytes = 0; bytes < commitBytesMax;) {
      const block = this.#sealedBlocks.shift()
      if (!block) break
      blocks.push(block)
      bytes += block.length
    }
    const last = blocks.at(-1)
    if (!last) return
    this.#isWriting = true
    this.#submittedSeq = new Block(last).lastSeq
    this.#written = this.#write(blocks)
  }

  async #write(buffers: readonly Buffer[]): Promise<void> {
    let written: Awaited<ReturnType<LogDisk['append']>>
    try {
      written = await this.#disk.append(buffers)
    } catch (error) {
      this.#fail(error)
      return
    }
    if (this.#options.visible !== 'written') this.#show(written.blocks)
    this.#onSynced(written.syncMs)
  }

  #show(blocks: readonly WrittenBlock[]): void {
    const filesBefore = this.#files.all.length
    const slices = blocks.map(({ block, file, offset }) => {
      this.#files.note(file, offset, block)
      this.#tail.push(block)
      return new LogSlice(block, 0)
    })
    this.#visibleSeq = slices.at(-1)?.lastSeq ?? this.#visibleSeq
    for (const listener of this.#visibleListeners) listener(slices)
    this.#hasRolled ||= this.#files.all.length > filesBefore
  }

  #onSynced(syncMs: number): void {
    this.#durableSeq = this.#submittedSeq
    this.#isWriting = false
    this.#options.onSync?.(syncMs)
    if (this.#hasRolled) void this.applyRetention()
    this.#hasRolled = false
    this.#pendingBytes =
      this.#builder.payloadLength + this.#sealedBlocks.reduce((sum, block) => sum + block.length, 0)
    while (this.#waiters[0] && this.#waiters[0].seq <= this.#durableSeq) this.#waiters.shift()?.resolve()
    this.#submit()
    for (const listener of this.#durableListeners) listener(this.#durableSeq)
  }

  async #delete(isDone: (file: LogFile) => boolean): Promise<void> {
    // A file stays until the one after it is durable: a log that lost both to a power cut would look damaged. The last
    // one may go when it is ended, and the lease does not name it any more.
    const mayGo = (next: LogFile | undefined): boolean =>
      next ? next.firstSeq <= this.#durableSeq : !this.#isWriting && this.#disk.isBetweenFiles
    await this.#guard(
      async () =>
        await this.#files.deleteWhile((file, next) => {
          if (!mayGo(next) || !isDone(file)) return false
          if (!next) this.#disk.forgetEnded()
          return true
        }),
    )
  }

  /** A disk that fails here ends the log as it does in a commit. */
  async #guard(changeDisk: () => Promise<void>): Promise<void> {
    try {
      if (!this.#failure) await changeDisk()
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(cause: unknown): void {
    if (this.#failure) return
    this.#failure = writeError(cause)
    for (const { reject } of this.#waiters.splice(0)) reject(this.#failure)
    this.#failureListener?.(this.#failure)
  }
}

function writeError(cause: unknown): LogWriteError {
  return new LogWriteError(cause instanceof Error ? cause.message : String(cause), { cause })
}
