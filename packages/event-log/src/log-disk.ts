/**
 * Owns the log's disk: checksums, writes, syncs, the lease of sequence numbers and the roll to a new file. One append
 * is one group commit, and there is one at a time.
 *
 * A file is open so that a write returns when its bytes are on the disk (O_DSYNC): one hand-over to the thread pool and
 * one wake-up a commit, where a write and a sync would be two, and a thread of our own more memory than both.
 * While the disk is quick a small commit is made here and now, for waking a thread and being woken by it takes as much
 * processor time as the commit itself.
 * Half a lease before its end the next one is taken, ahead of the write that made it necessary.
 */
import {
  closeSync,
  constants,
  fdatasync,
  fsyncSync,
  openSync,
  writeFileSync,
  writev,
  writevSync,
} from 'node:fs'
import { join } from 'node:path'
import { Block, sealBlock, type Crc } from './block.ts'
import { syncDirectory } from './durable-file.ts'
import { writeLease } from './lease.ts'
import { indexName } from './log-files.ts'
import { addToIndex, type FileIndex } from './recover.ts'

export interface LogDiskOptions {
  directory: string
  crc: Crc
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
}

/** What is written without a thread: few bytes, while a commit takes so long at most, on average. */
const hereMax = { bytes: 16 * 1024, averageMs: 1 }
/** Of the last commit in the average. */
const averageShare = 0.1

/** Buffers of one write: the least that every system takes. */
const buffersPerWrite = 1024

export class LogDisk {
  readonly #options: LogDiskOptions
  /** Elsewhere than on Linux such a write may end in the cache of the drive: there a sync follows, which does not. */
  readonly #syncsByWriting: boolean
  #leaseLimit: number
  #file: OpenFile | undefined
  /** Of a commit, lately. A slow disk counts at once, a quick one when it has been quick for some time. */
  #averageMs = hereMax.averageMs * 2

  constructor(options: LogDiskOptions) {
    this.#options = options
    this.#syncsByWriting = options.onWritten === undefined && process.platform === 'linux'
    this.#leaseLimit = options.leaseLimit
    if (!options.current) return
    const { name, index } = options.current
    const fd = this.#open(name, constants.O_RDWR)
    fsyncSync(fd)
    this.#file = { name, fd, index, openedAtMs: Date.now(), syncedBytes: index.bytes }
  }

  /**
   * Seals blocks, writes them behind what there is, and resolves when they are durable.
   * @returns their places, and the milliseconds that the disk took.
   * @throws Error of the disk: what was to be written may be there in part, and nothing more may be written.
   */
  async append(buffers: readonly Buffer[]): Promise<{ blocks: WrittenBlock[]; syncMs: number }> {
    const written: WrittenBlock[] = []
    const isHere = this.#averageMs <= hereMax.averageMs && totalBytes(buffers) <= hereMax.bytes
    let startMs = performance.now()
    for (let at = 0; at < buffers.length;) {
      const { blocks, file } = this.#seal(buffers.slice(at, at + buffersPerWrite))
      const bytes = blocks.map(({ block }) => block.buffer)
      await writeAll(file.fd, bytes, blocks[0]?.offset ?? 0, isHere)
      at += blocks.length
      written.push(...blocks)
    }
    if (this.#options.onWritten) {
      this.#options.onWritten(written)
      startMs = performance.now()
    }
    if (this.#file && !this.#syncsByWriting) await sync(this.#file.fd)
    if (this.#file) this.#file.syncedBytes = this.#file.index.bytes
    const syncMs = performance.now() - startMs
    const average = this.#averageMs + (syncMs - this.#averageMs) * averageShare
    this.#averageMs = syncMs > 10 * hereMax.averageMs ? Math.max(average, 2 * hereMax.averageMs) : average
    return { blocks: written, syncMs }
  }

  /** @param nextSeq where the next start goes on, without a gap; undefined when a write has failed. */
  close(nextSeq: number | undefined): void {
    if (this.#file) closeSync(this.#file.fd)
    if (nextSeq !== undefined) this.#keepLease(nextSeq)
  }

  /** Gives the first of some blocks their places in the file that they go into together, and their checksums. */
  #seal(buffers: readonly Buffer[]): { blocks: WrittenBlock[]; file: OpenFile } {
    const blocks: WrittenBlock[] = []
    let file = this.#file
    for (const buffer of buffers) {
      const block = new Block(buffer)
      if (!file || this.#isFull(file, buffer.length)) {
        // Those before it are written first.
        if (file && blocks.length > 0) break
        file = this.#roll(block.firstSeq)
      }
      this.#reserve(block.lastSeq)
      sealBlock(buffer, file.syncedBytes, this.#options.secret, this.#options.crc)
      blocks.push({ block, file: file.name, offset: file.index.bytes })
      addToIndex(file.index, {
        firstSeq: block.firstSeq,
        lastSeq: block.lastSeq,
        lastTimeMs: block.timeMsAt(block.count - 1),
      })
      file.index.bytes += buffer.length
    }
    if (!file) throw new Error('there is nothing to write')
    return { blocks, file }
  }

  #isFull({ index, openedAtMs }: OpenFile, bytes: number): boolean {
    const { fileBytesMax, fileAgeMsMax } = this.#options
    return index.bytes + bytes > fileBytesMax || Date.now() - openedAtMs > fileAgeMsMax
  }

  #roll(firstSeq: number): OpenFile {
    const { directory } = this.#options
    if (this.#file) {
      const { name, fd, index } = this.#file
      fsyncSync(fd)
      closeSync(fd)
      this.#file = undefined
      writeFileSync(join(directory, indexName(name)), JSON.stringify(index))
    }
    const name = fileName(firstSeq)
    const fd = this.#open(name, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL)
    const index: FileIndex = { firstSeq: 0, lastSeq: 0, lastTimeMs: 0, bytes: 0, points: [] }
    this.#file = { name, fd, index, openedAtMs: Date.now(), syncedBytes: 0 }
    syncDirectory(directory)
    return this.#file
  }

  #open(name: string, flags: number): number {
    const durable = this.#syncsByWriting ? constants.O_DSYNC : 0
    return openSync(join(this.#options.directory, name), flags | durable)
  }

  #reserve(lastSeq: number): void {
    const { leaseSize } = this.#options
    if (lastSeq < this.#leaseLimit - leaseSize / 2) return
    this.#leaseLimit = Math.max(this.#leaseLimit, lastSeq + 1) + leaseSize
    this.#keepLease(this.#leaseLimit)
  }

  #keepLease(limit: number): void {
    const { directory, secret } = this.#options
    const synced = this.#file && { file: this.#file.name, bytes: this.#file.syncedBytes }
    writeLease(directory, { limit, synced, secret })
  }
}

/** Name of the log file that starts at a seq: sorts by seq. */
function fileName(firstSeq: number): string {
  return `${String(firstSeq).padStart(16, '0')}.tlog`
}

async function writeAll(
  fd: number,
  buffers: readonly Buffer[],
  position: number,
  isHere: boolean,
): Promise<void> {
  for (let rest = buffers, at = position; rest.length > 0;) {
    const bytes = isHere ? writevSync(fd, rest, at) : await write(fd, rest, at)
    at += bytes
    rest = without(rest, bytes)
  }
}

function write(fd: number, buffers: readonly Buffer[], position: number): Promise<number> {
  return new Promise((resolve, reject) =>
    writev(fd, buffers, position, (error, bytes) => (error ? reject(error) : resolve(bytes))),
  )
}

function sync(fd: number): Promise<void> {
  return new Promise((resolve, reject) => fdatasync(fd, (error) => (error ? reject(error) : resolve())))
}

function totalBytes(buffers: readonly Buffer[]): number {
  return buffers.reduce((sum, { length }) => sum + length, 0)
}

/** What is left of some buffers when their first bytes are gone. */
function without(buffers: readonly Buffer[], bytes: number): Buffer[] {
  let left = bytes
  return buffers.flatMap((buffer) => {
    const gone = Math.min(left, buffer.length)
    left -= gone
    return gone === buffer.length ? [] : buffer.subarray(gone)
  })
}
