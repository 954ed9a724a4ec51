/**
 * Owns the log's disk: checksums, writes, syncs, the lease of sequence numbers and the roll to a new file. One append
 * is one group commit, and there is one at a time.
 *
 * A file is open so that a write returns when its bytes are on the disk (O_DSYNC): one hand-over to the thread pool and
 * one wake-up a commit, where a write and a sync would be two, and a thread of our own more memory than both.
 * While the disk is quick a small commit is made here and now, for waking a thread and being woken by it takes as much
 * processor time as the commit itself. A disk that stood still may do so again, and would hold up all that the event loop
 * has to do: for a minute no commit is made here. Small commits also find zeros where they go, written ahead of them: a write that
 * makes a file longer has the file system change what it knows of the file, for twice the time and work of the bytes.
 * Half a lease before its end the next one is taken, before the write that made it necessary. Leases, and the roll to a
 * new file, are always left to a thread: they come seldom, and what they sync may take long.
 */
import { constants } from 'node:fs'
import { join } from 'node:path'
import { Block, sealBlock, type Crc } from './block.ts'
import { checkedJson } from './checked-json.ts'
import type { Clock } from './clock.ts'
import type { Disk } from './disk.ts'
import { aside, syncAside, syncDirectoryAside, writeAside, writeHere } from './durable-file.ts'
import { addToIndex, emptyIndex, type FileIndex } from './file-index.ts'
import { type SyncedMark, writeLease } from './lease.ts'
import { indexName } from './log-files.ts'

export interface LogDiskOptions {
  directory: string
  disk: Disk
  crc: Crc
  clock: Clock
  leaseSize: number
  /** The first number that is not reserved yet. */
  leaseLimit: number
  /** What every block carries. */
  secret: bigint
  fileBytesMax: number
  fileAgeMsMax: number
  /** The file to go on with, or none. */
  current: { name: string; index: FileIndex } | undefined
  /** Called when blocks have been written and are not durable yet. Without it a write is durable when it returns. */
  onWritten?: ((blocks: readonly WrittenBlock[]) => void) | undefined
  /** Told when the disk fails at something for which no call waits: the next one may be long in coming. */
  onFault: (error: Error) => void
}

/** A block and where it stands. */
export interface WrittenBlock {
  block: Block
  file: string
  offset: number
}

interface OpenFile {
  name: string
  fd: number
  index: FileIndex
  openedAtMs: number
  /** How far it is known to be on the disk. */
  syncedBytes: number
  /** How far it reaches, with the zeros after its last block. */
  readyBytes: number
  /** Zeros on their way to the disk, behind `readyBytes`. No block may go there until they are there. */
  growing: Promise<void> | undefined
  /** Why they could not be written: the next commit fails for it. */
  fault: Error | undefined
}

/** What is written without a thread: few bytes, while a commit takes so long at most, on average. */
const hereMax = { bytes: 16 * 1024, averageMs: 1 }
/**
 * Zeros that are written at a time, and what is left of them when the next are. A small commit goes over them, for one
 * that makes the file longer takes the disk up to twice the time.
 */
const ahead = { bytes: 1024 * 1024, leftMin: 512 * 1024 }
const zeros = Buffer.alloc(ahead.bytes)
/** Of the last commit in the average. */
const averageShare = 0.1
/** A commit that took so long found the disk standing still. For so long after it, none is made without a thread. */
const stall = { ms: 10, apartMs: 60_000 }

/** Buffers of one write: the least that every system takes. */
const buffersPerWrite = 1024

export class LogDisk {
  readonly #options: LogDiskOptions
  readonly #disk: Disk
  /** Elsewhere than on Linux such a write may end in the cache of the drive: there a sync follows, which does not. */
  readonly #syncsByWriting: boolean
  #leaseLimit: number
  #file: OpenFile | undefined
  /** The newest file, when it was ended and none was begun after it. */
  #ended: SyncedMark | undefined
  /** Commits lately took so long on average. */
  #averageMs = hereMax.averageMs * 2
  /** Until then, in time elapsed, the disk may stand still again. */
  #stallsUntilMs = -Infinity

  constructor(options: LogDiskOptions) {
    this.#options = options
    this.#disk = options.disk
    this.#syncsByWriting = options.onWritten === undefined && process.platform === 'linux'
    this.#leaseLimit = options.leaseLimit
    if (!options.current) return
    const { name, index } = options.current
    const fd = this.#disk.openSync(join(options.directory, name), this.#flags)
    this.#disk.fsyncSync(fd)
    this.#file = newOpenFile(name, fd, index, options.clock)
  }

  /**
   * Seals blocks, writes them after what there is, and resolves when they are durable.
   * @returns their places, and the milliseconds that the disk took, without those of a lease and of a roll.
   * @throws Error of the disk: what was to be written may be there in part, and nothing more may be written.
   */
  async append(buffers: readonly Buffer[]): Promise<{ blocks: WrittenBlock[]; syncMs: number }> {
    const written: WrittenBlock[] = []
    const isSmall = totalBytes(buffers) <= hereMax.bytes
    let isHere = false
    let startMs = 0
    await this.#reserve(buffers)
    for (let rest = buffers; rest.length > 0;) {
      const file = await this.#fileFor(rest)
      startMs = this.#options.clock.elapsedMs()
      isHere = isSmall && this.#averageMs <= hereMax.averageMs && startMs >= this.#stallsUntilMs
      const blocks = this.#seal(file, rest.slice(0, buffersPerWrite))
      if (file.growing && file.index.bytes > file.readyBytes) await file.growing
      if (file.fault) throw file.fault
      const bytes = blocks.map(({ block }) => block.buffer)
      const at = blocks[0]?.offset ?? 0
      if (isHere) writeHere(this.#disk, file.fd, bytes, at)
      else await writeAside(this.#disk, file.fd, bytes, at)
      file.readyBytes = Math.max(file.readyBytes, file.index.bytes)
      rest = rest.slice(blocks.length)
      written.push(...blocks)
    }
    if (this.#options.onWritten) {
      this.#options.onWritten(written)
      startMs = this.#options.clock.elapsedMs()
    }
    if (this.#file && !this.#syncsByWriting) await syncAside(this.#disk, this.#file.fd)
    if (this.#file) this.#file.syncedBytes = this.#file.index.bytes
    if (this.#file && isSmall) this.#writeAhead(this.#file)
    const endMs = this.#options.clock.elapsedMs()
    const syncMs = endMs - startMs
    this.#averageMs += (syncMs - this.#averageMs) * averageShare
    if (syncMs >= stall.ms) this.#stallsUntilMs = endMs + stall.apartMs
    return { blocks: written, syncMs }
  }

  /**
   * Ends the file that is being written. A start need not find it from now on. No commit may be under way.
   * @throws Error of the disk, as `append` does.
   */
  async endFile(): Promise<void> {
    const file = this.#file
    if (!file) return
    await this.#finish(file)
    await this.#keepLease(this.#leaseLimit)
    this.#ended = { file: file.name, bytes: file.index.bytes }
  }

  /** Whether no file is being written: every file there is may be deleted, once `forgetEnded` was called. */
  get isBetweenFiles(): boolean {
    return this.#file === undefined
  }

  /** The newest file is about to be deleted. */
  forgetEnded(): void {
    this.#ended = undefined
  }

  /**
   * @param nextSeq where the next start goes on, without a gap; undefined when a write has failed.
   * @throws Error of the disk, when it could not write what the next commit would have needed.
   */
  async close(nextSeq: number | undefined): Promise<void> {
    const file = this.#file
    await file?.growing
    const isWhole = nextSeq !== undefined && !file?.fault
    if (file && isWhole) this.#disk.ftruncateSync(file.fd, file.index.bytes)
    if (file) this.#disk.closeSync(file.fd)
    if (isWhole) await this.#keepLease(nextSeq)
    if (nextSeq !== undefined && file?.fault) throw file.fault
  }

  /** The file that the first of some blocks goes into. */
  async #fileFor([first]: readonly Buffer[]): Promise<OpenFile> {
    if (!first) throw new Error('there is nothing to write')
    if (this.#file && !isFull(this.#file, first.length, this.#options)) return this.#file
    if (this.#file) await this.#finish(this.#file)
    this.#file = await this.#begin(new Block(first).firstSeq)
    this.#ended = undefined
    return this.#file
  }

  /** Gives the first of some blocks their places in a file, all that it has room for, and their checksums. */
  #seal(file: OpenFile, buffers: readonly Buffer[]): WrittenBlock[] {
    const blocks: WrittenBlock[] = []
    for (const buffer of buffers) {
      const block = new Block(buffer)
      if (blocks.length > 0 && isFull(file, buffer.length, this.#options)) break
      sealBlock(buffer, file.syncedBytes, this.#options.secret, this.#options.crc)
      blocks.push({ block, file: file.name, offset: file.index.bytes })
      addToIndex(file.index, block, buffer.length)
    }
    return blocks
  }

  /** Begins to write the zeros that the next blocks will go over, when few are left. */
  #writeAhead(file: OpenFile): void {
    const { index, readyBytes } = file
    if (file.growing || readyBytes - index.bytes >= ahead.leftMin) return
    const end = Math.min(readyBytes + ahead.bytes, this.#options.fileBytesMax)
    if (end > readyBytes) file.growing = writeZeros(this.#disk, file, end, this.#options.onFault)
  }

  /** Ends a file where its last block does. */
  async #finish(file: OpenFile): Promise<void> {
    await file.growing
    if (file.fault) throw file.fault
    const { name, fd, index } = file
    await aside((done) => this.#disk.ftruncate(fd, index.bytes, done))
    await aside((done) => this.#disk.fsync(fd, done))
    this.#disk.closeSync(fd)
    this.#file = undefined
    const beside = join(this.#options.directory, indexName(name))
    await aside((done) => this.#disk.writeFile(beside, checkedJson(index, this.#options.crc), done))
  }

  async #begin(firstSeq: number): Promise<OpenFile> {
    const { directory, clock } = this.#options
    const name = fileName(firstSeq)
    const flags = this.#flags | constants.O_CREAT | constants.O_EXCL
    const fd = await aside<number>((done) => this.#disk.open(join(directory, name), flags, done))
    await syncDirectoryAside(this.#disk, directory)
    return newOpenFile(name, fd, emptyIndex(), clock)
  }

  /** How log files are opened. */
  get #flags(): number {
    return constants.O_RDWR | (this.#syncsByWriting ? constants.O_DSYNC : 0)
  }

  /** Takes the next lease when blocks that are to be written come near the end of the last one. */
  async #reserve(buffers: readonly Buffer[]): Promise<void> {
    const { leaseSize } = this.#options
    const last = buffers.at(-1)
    const lastSeq = last ? new Block(last).lastSeq : 0
    if (lastSeq < this.#leaseLimit - leaseSize / 2) return
    this.#leaseLimit = Math.max(this.#leaseLimit, lastSeq + 1) + leaseSize
    await this.#keepLease(this.#leaseLimit)
  }

  async #keepLease(limit: number): Promise<void> {
    const { directory, secret } = this.#options
    const synced = this.#file ? { file: this.#file.name, bytes: this.#file.syncedBytes } : this.#ended
    await writeLease(this.#disk, directory, { limit, synced, secret })
  }
}

/** Of a file that ends with its last block. */
function newOpenFile(name: string, fd: number, index: FileIndex, clock: Clock): OpenFile {
  const { bytes } = index
  const nothingAhead = { readyBytes: bytes, growing: undefined, fault: undefined }
  return { name, fd, index, openedAtMs: clock.elapsedMs(), syncedBytes: bytes, ...nothingAhead }
}

/** Never rejects: the file's `fault` tells, and `onFault`. */
async function writeZeros(
  disk: Disk,
  file: OpenFile,
  end: number,
  onFault: (error: Error) => void,
): Promise<void> {
  try {
    await writeAside(disk, file.fd, [zeros.subarray(0, end - file.readyBytes)], file.readyBytes)
    file.readyBytes = end
  } catch (error) {
    file.fault = error as Error // as `writev` gives it
    onFault(file.fault)
  }
  file.growing = undefined
}

function isFull({ index, openedAtMs }: OpenFile, bytes: number, limits: LogDiskOptions): boolean {
  return (
    index.bytes + bytes > limits.fileBytesMax || limits.clock.elapsedMs() - openedAtMs > limits.fileAgeMsMax
  )
}

/** Name of the log file that starts at a seq: sorts by seq. */
function fileName(firstSeq: number): string {
  return `${String(firstSeq).padStart(16, '0')}.tlog`
}

function totalBytes(buffers: readonly Buffer[]): number {
  return buffers.reduce((sum, { length }) => sum + length, 0)
}
