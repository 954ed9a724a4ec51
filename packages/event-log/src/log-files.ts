import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Block, headerBytes, isBlockIntact, readBlockHeader, type BlockSearch, type Crc } from './block.ts'
import { parseCheckedJson } from './checked-json.ts'
import type { Disk, ReadHandle } from './disk.ts'
import { aside, removeInParts, syncDirectory, syncDirectoryAside } from './durable-file.ts'
import { LogCorruptError } from './errors.ts'
import { addToIndex, emptyIndex, type FileIndex } from './file-index.ts'
import type { SyncedMark } from './lease.ts'
import { LogSlice } from './log-slice.ts'
import { holesBetween } from './missing-files.ts'
import type { OpenTime } from './open-time.ts'
import { indexFile, recoverFile } from './recover-file.ts'

export interface LogFile extends FileIndex {
  name: string
  /** Reads under way: a file that goes stays on the disk until they are done. */
  readers: number
  /** How long the log had been open when the newest record was written. */
  writtenAtMs: number
}

export interface LogFilesOptions {
  directory: string
  disk: Disk
  crc: Crc
  /** What the lease says is on the disk. */
  synced: SyncedMark | undefined
  search: BlockSearch
  openTime: OpenTime
}

interface Place {
  file: LogFile
  offset: number
}

/** Readers whose next place is remembered, so that they go on without a search. */
const positionsMax = 4096

/** The files of one log as readers see them: everything that is visible, oldest first. */
export class LogFiles {
  readonly #directory: string
  readonly #disk: Disk
  readonly #crc: Crc
  readonly #openTime: OpenTime
  readonly #files: LogFile[]
  /** Gone for new readers, oldest first. They leave the disk in this order, so that no hole can come back. */
  readonly #deleted: LogFile[] = []
  /** The removal under way, or the last one. Never rejects. */
  #removed: Promise<void> = Promise.resolve()
  #isClosed = false
  #lastDeletedSeq = 0
  /** Told of a disk that fails when a file is removed after its last read. */
  onFault: (error: unknown) => void = () => {}
  readonly #handles = new Map<string, Promise<ReadHandle>>()
  /** Where the block behind a seq starts, for readers that go on from there. */
  readonly #positions = new Map<number, { name: string; offset: number }>()

  /**
   * Reads what a directory holds, and cuts the torn tail of the last file.
   * @throws LogCorruptError
   */
  constructor(options: LogFilesOptions) {
    this.#directory = options.directory
    this.#disk = options.disk
    this.#crc = options.crc
    this.#openTime = options.openTime
    this.#files = readFiles(options)
  }

  get all(): readonly LogFile[] {
    return this.#files
  }

  /** Bytes of all files. */
  get bytes(): number {
    return this.#files.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** The newest seq of a file that was deleted; 0 when none was. */
  get lastDeletedSeq(): number {
    return this.#lastDeletedSeq
  }

  /** Notes a block that became visible. */
  note(name: string, offset: number, block: Block): void {
    let file = this.#files.at(-1)
    if (file?.name !== name) {
      file = { name, readers: 0, writtenAtMs: 0, ...emptyIndex() }
      this.#files.push(file)
    }
    file.bytes = offset
    addToIndex(file, block, block.buffer.length)
    file.writtenAtMs = this.#openTime.ms
  }

  /**
   * The records behind `afterSeq` in order, about `maxBytes` of them and at least one; empty at the end.
   * @throws LogCorruptError when a block among them is not what was written.
   */
  async read(afterSeq: number, maxBytes: number): Promise<LogSlice[]> {
    for (let position = afterSeq; ;) {
      const place = this.#locate(position)
      if (!place) return []
      place.file.readers++
      const slices = await this.#readFrom(place, position, maxBytes).finally(() => {
        place.file.readers--
        void this.#removeDeleted().catch(this.onFault)
      })
      if (slices.length > 0) return slices
      position = Math.max(position, place.file.lastSeq)
    }
  }

  /**
   * Deletes the oldest files for which `isDone` holds. It is told the file after it, too: undefined for the last one, which
   * may be the one that is being written. They are gone for readers at once. Resolves when they are gone from the disk, but
   * for those that are being read.
   * @throws Error of the disk.
   */
  async deleteWhile(isDone: (file: LogFile, next: LogFile | undefined) => boolean): Promise<void> {
    for (;;) {
      const [file, next] = this.#files
      if (!file || !isDone(file, next)) break
      this.#files.shift()
      this.#deleted.push(file)
      this.#lastDeletedSeq = file.lastSeq
    }
    await this.#removeDeleted()
  }

  /** Once no file is being removed. One that is being read by then stays until the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#removed
    for (const handle of this.#handles.values()) await (await handle).close()
    this.#handles.clear()
  }

  /** One removal after the other. */
  async #removeDeleted(): Promise<void> {
    // After a close the directory may be somebody else's.
    if (this.#deleted.length === 0 || this.#isClosed) return
    const removal = this.#removed.then(async () => await this.#removeUnread())
    this.#removed = removal.catch(() => undefined)
    await removal
  }

  /** Files are renamed first, so that no start takes what is left of one for a part of the log. */
  async #removeUnread(): Promise<void> {
    for (let file = this.#deleted[0]; file?.readers === 0; file = this.#deleted[0]) {
      const path = join(this.#directory, file.name)
      // When a removal has failed, they may be gone. An operator whose disk is full removes files, too.
      if (existsSync(indexName(path))) await aside((done) => this.#disk.unlink(indexName(path), done))
      if (existsSync(path)) await aside((done) => this.#disk.rename(path, goneName(path), done))
      // A power cut may not bring this file back and take a newer one.
      await syncDirectoryAside(this.#disk, this.#directory)
      this.#deleted.shift()
      const handle = this.#handles.get(file.name)
      this.#handles.delete(file.name)
      void handle?.then((open) => open.close())
      if (existsSync(goneName(path))) await removeInParts(this.#disk, goneName(path), file.bytes)
    }
  }

  #locate(afterSeq: number): Place | undefined {
    const known = this.#positions.get(afterSeq)
    const knownFile = known && this.#files.find(({ name }) => name === known.name)
    if (known && knownFile && known.offset < knownFile.bytes) return { file: knownFile, offset: known.offset }
    this.#positions.delete(afterSeq)
    const file = this.#files.find(({ lastSeq }) => lastSeq > afterSeq)
    return file && { file, offset: file.points.findLast(({ seq }) => seq <= afterSeq + 1)?.offset ?? 0 }
  }

  async #readFrom({ file, offset: from }: Place, afterSeq: number, maxBytes: number): Promise<LogSlice[]> {
    const end = file.bytes
    const handle = await this.#handle(file.name)
    const slices: LogSlice[] = []
    let offset = from
    let bytes = 0
    // At least one record, whatever the bound.
    while (offset < end && (slices.length === 0 || bytes < maxBytes)) {
      let chunk = await readAt(handle, offset, Math.min(Math.max(maxBytes, headerBytes), end - offset))
      const first = readBlockHeader(chunk, 0)
      if (!first || offset + first.blockBytes > end)
        throw new LogCorruptError(file.name, offset, 'no block where one should be')
      if (first.blockBytes > chunk.length) {
        chunk.buffer.transfer(0)
        chunk = await readAt(handle, offset, first.blockBytes)
      }
      for (let at = 0; bytes < maxBytes;) {
        const header = readBlockHeader(chunk, at)
        if (!header || at + header.blockBytes > chunk.length) break
        const bytesOfBlock = chunk.subarray(at, at + header.blockBytes)
        if (!isBlockIntact(bytesOfBlock, this.#crc))
          throw new LogCorruptError(file.name, offset, 'a block is not what was written')
        const block = new Block(bytesOfBlock)
        at += header.blockBytes
        offset += header.blockBytes
        if (block.lastSeq <= afterSeq) continue
        const slice = new LogSlice(block, block.firstRowAfter(afterSeq), chunk.buffer)
        slices.push(slice)
        bytes += slice.bytes.length
      }
    }
    const last = slices.at(-1)
    if (last) this.#remember(last.lastSeq, { name: file.name, offset })
    return slices
  }

  #remember(seq: number, place: { name: string; offset: number }): void {
    this.#positions.set(seq, place)
    if (this.#positions.size <= positionsMax) return
    const [oldest] = this.#positions.keys()
    if (oldest !== undefined) this.#positions.delete(oldest)
  }

  #handle(name: string): Promise<ReadHandle> {
    let handle = this.#handles.get(name)
    if (!handle) {
      handle = this.#disk.promises.open(join(this.#directory, name), 'r')
      this.#handles.set(name, handle)
      handle.catch(() => this.#handles.delete(name))
    }
    return handle
  }
}

async function readAt(handle: ReadHandle, offset: number, length: number): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.allocUnsafeSlow(length)
  const { bytesRead } = await handle.read(bytes, 0, length, offset)
  return bytesRead === length ? bytes : bytes.subarray(0, bytesRead)
}

function readFiles({ directory, disk, crc, synced, search, openTime }: LogFilesOptions): LogFile[] {
  const names = logFileNames(directory)
  const files: LogFile[] = []
  // A kill left them while they were removed.
  for (const name of readdirSync(directory))
    if (name.endsWith(goneName('.tlog'))) disk.rmSync(join(directory, name))
  for (const [position, name] of names.entries()) {
    const path = join(directory, name)
    const isLast = position === names.length - 1
    const afterSeq = files.at(-1)?.lastSeq ?? 0
    const syncedBytes = synced?.file === name ? synced.bytes : 0
    const index = isLast
      ? recoverFile(disk, path, { crc, syncedBytes, afterSeq, search })
      : (readIndex(path, crc) ?? indexFile(path, { crc, afterSeq, search }))
    if (index.bytes === 0) {
      // Its first block is durable before the next file is begun.
      if (!isLast) throw new LogCorruptError(path, 0, 'it is empty')
      // Created, and stopped before its first block was whole. A power cut may not bring it back when there is a newer one.
      disk.rmSync(path)
      syncDirectory(disk, directory)
      continue
    }
    if (index.firstSeq <= afterSeq) throw new LogCorruptError(path, 0, 'it overlaps the file before it')
    // Beside a file that was written on after a start stands more than its index: the age that it had at that start.
    files.push({ ...index, name, readers: 0, writtenAtMs: openTime.writtenAtMs(index.lastSeq) })
  }
  const last = files.at(-1)
  if (synced && synced.bytes > 0 && (last === undefined || last.name < synced.file))
    throw new LogCorruptError(join(directory, synced.file), 0, 'it is missing')
  const [hole] = holesBetween(directory, files, openTime.finishedSeqs)
  if (hole) throw new LogCorruptError(join(directory, hole.file), hole.offset, hole.what)
  return files
}

/** The log files of a directory, oldest first. */
export function logFileNames(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.tlog'))
    .toSorted()
}

/** The name of a file that is no part of the log any more, until it is gone. */
function goneName(logFile: string): string {
  return `${logFile}.gone`
}

/** The file beside a finished log file that saves a start from reading all of it. */
export function indexName(logFile: string): string {
  return `${logFile}.idx`
}

/**
 * The index beside a finished file. Undefined when it is missing or damaged, or tells of a shorter file, because the file
 * was written on: then the file itself tells.
 * @throws LogCorruptError when it tells of a longer file.
 */
function readIndex(path: string, crc: Crc): FileIndex | undefined {
  const indexed = indexedFile(path, crc)
  if (!indexed) return undefined
  const { size } = statSync(path)
  if (indexed.hasCrc && indexed.index.bytes > size) throw new LogCorruptError(path, size, cutShort)
  return indexed.index.bytes === size ? indexed.index : undefined
}

/** How a file is damaged whose index tells of more bytes. The index is written after the file is durable. */
export const cutShort = 'it is cut short'

/** What stands beside a log file. Undefined when it is missing or damaged. */
export function indexedFile(path: string, crc: Crc): { index: FileIndex; hasCrc: boolean } | undefined {
  const file = indexName(path)
  if (!existsSync(file)) return undefined
  const read = parseCheckedJson(readFileSync(file, 'utf8'), crc)
  return read && { index: read.value as FileIndex, hasCrc: read.hasCrc } // as `LogDisk` wrote it
}
