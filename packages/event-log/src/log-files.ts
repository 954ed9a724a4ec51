import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { Block, headerBytes, readBlockHeader, type Crc } from './block.ts'
import { LogCorruptError } from './errors.ts'
import { LogSlice } from './log-slice.ts'
import { addToIndex, indexFile, recoverFile, type FileIndex } from './recover.ts'

export interface LogFile extends FileIndex {
  name: string
}

interface Place {
  file: LogFile
  offset: number
}

/** Readers whose next place is remembered, so that they go on without a search. */
const positionsMax = 4096
/** How long a reader may still be in a file that was deleted. */
const closeDeletedAfterMs = 60_000

/** The files of one log as readers see them: everything that is visible, oldest first. */
export class LogFiles {
  readonly #directory: string
  readonly #files: LogFile[]
  readonly #handles = new Map<string, Promise<FileHandle>>()
  /** Where the block behind a seq starts, for readers that go on from there. */
  readonly #positions = new Map<number, { name: string; offset: number }>()

  /**
   * Reads what a directory holds, and cuts the torn tail of the last file.
   * @throws LogCorruptError
   */
  constructor(directory: string, crc: Crc) {
    this.#directory = directory
    this.#files = readFiles(directory, crc)
  }

  get all(): readonly LogFile[] {
    return this.#files
  }

  /** Notes a block that became visible. */
  note(name: string, offset: number, block: Block): void {
    let file = this.#files.at(-1)
    if (file?.name !== name) {
      file = { name, firstSeq: 0, lastSeq: 0, lastTimeMs: 0, bytes: 0, points: [] }
      this.#files.push(file)
    }
    file.bytes = offset
    addToIndex(file, {
      firstSeq: block.firstSeq,
      lastSeq: block.lastSeq,
      lastTimeMs: block.timeMsAt(block.count - 1),
    })
    file.bytes = offset + block.buffer.length
  }

  /** The records behind `afterSeq` in order, about `maxBytes` of them and at least one; empty at the end. */
  async read(afterSeq: number, maxBytes: number): Promise<LogSlice[]> {
    for (let position = afterSeq; ;) {
      const place = this.#locate(position)
      if (!place) return []
      const slices = await this.#readFrom(place, position, maxBytes)
      if (slices.length > 0) return slices
      position = Math.max(position, place.file.lastSeq)
    }
  }

  /**
   * Deletes the oldest files for which `isDone` holds. The last file, which is being written, stays.
   * @returns the last seq that was deleted; 0 when nothing was.
   */
  deleteWhile(isDone: (file: LogFile) => boolean): number {
    let lastDeleted = 0
    for (let file = this.#files[0]; file && this.#files.length > 1 && isDone(file); file = this.#files[0]) {
      this.#files.shift()
      lastDeleted = file.lastSeq
      rmSync(join(this.#directory, file.name), { force: true })
      rmSync(join(this.#directory, `${file.name}.idx`), { force: true })
      const handle = this.#handles.get(file.name)
      this.#handles.delete(file.name)
      if (handle) setTimeout(() => void handle.then((open) => open.close()), closeDeletedAfterMs).unref()
    }
    return lastDeleted
  }

  async close(): Promise<void> {
    for (const handle of this.#handles.values()) await (await handle).close()
    this.#handles.clear()
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
      if (!first) throw new LogCorruptError(file.name, offset, 'no block where one should be')
      if (first.blockBytes > chunk.length) chunk = await readAt(handle, offset, first.blockBytes)
      for (let at = 0; bytes < maxBytes;) {
        const header = readBlockHeader(chunk, at)
        if (!header || at + header.blockBytes > chunk.length) break
        const block = new Block(chunk.subarray(at, at + header.blockBytes))
        at += header.blockBytes
        offset += header.blockBytes
        if (block.lastSeq <= afterSeq) continue
        const slice = new LogSlice(block, block.firstRowAfter(afterSeq))
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

  #handle(name: string): Promise<FileHandle> {
    let handle = this.#handles.get(name)
    if (!handle) {
      handle = open(join(this.#directory, name), 'r')
      this.#handles.set(name, handle)
      handle.catch(() => this.#handles.delete(name))
    }
    return handle
  }
}

async function readAt(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  const { bytesRead } = await handle.read(bytes, 0, length, offset)
  return bytesRead === length ? bytes : bytes.subarray(0, bytesRead)
}

function readFiles(directory: string, crc: Crc): LogFile[] {
  const names = readdirSync(directory)
    .filter((name) => name.endsWith('.tlog'))
    .toSorted()
  const files: LogFile[] = []
  for (const [position, name] of names.entries()) {
    const path = join(directory, name)
    const isLast = position === names.length - 1
    const index = isLast ? recoverFile(path, crc) : (readIndex(`${path}.idx`) ?? indexFile(path))
    if (index.bytes === 0) {
      // Created, and stopped before its first block was whole.
      rmSync(path)
      continue
    }
    const previous = files.at(-1)
    if (previous && index.firstSeq <= previous.lastSeq)
      throw new LogCorruptError(path, 0, 'it overlaps the file before it')
    files.push({ name, ...index })
  }
  return files
}

function readIndex(path: string): FileIndex | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as FileIndex // written by the writer thread
  } catch {
    // Missing or torn: the file itself tells.
    return undefined
  }
}
