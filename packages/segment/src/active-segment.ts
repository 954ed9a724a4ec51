import { existsSync } from 'node:fs'
import { type BlockEntry, describeBlock, entryAt } from './block-index.ts'
import { type BlockView, decodeBlock } from './block-view.ts'
import { encodeBlockBody } from './encode-block.ts'
import { inFile, SegmentError } from './errors.ts'
import { encodeActiveHeader, headerBytes } from './header.ts'
import { packFrame } from './node-zstd.ts'
import { readBlock, readFrame } from './read-block.ts'
import { recoverSummary } from './recover.ts'
import type { Row } from './row.ts'
import { systemDisk, type SegmentDisk } from './segment-disk.ts'
import { SegmentFile, syncDirectoryOf, writeAgain } from './segment-file.ts'
import { SegmentSummary } from './segment-summary.ts'
import { storedFrame } from './stored-block.ts'

/**
 * The segment that is being appended to: one writer, any number of readers.
 * A block counts, and shows in `blocks`, only once it is synced. After a failed write or sync nothing more can be
 * written; the file is then opened again with recover, which cuts what was not finished.
 */
export class ActiveSegment {
  readonly #file: SegmentFile
  readonly #summary: SegmentSummary
  /** Bytes that recover cut off: a block whose write had not ended, or an unfinished seal. Worth a log line. */
  readonly bytesCut: number
  #state: { is: 'open' } | { is: 'writing' } | { is: 'failed'; cause: unknown } | { is: 'sealed' } = {
    is: 'open',
  }

  private constructor(file: SegmentFile, summary: SegmentSummary, bytesCut: number) {
    this.#file = file
    this.#summary = summary
    this.bytesCut = bytesCut
  }

  /**
   * Creates the file, with its header before it has its name, and makes the name durable.
   * Throws SegmentError `bad-name` when the name is taken.
   */
  static async create(path: string, disk: SegmentDisk = systemDisk): Promise<ActiveSegment> {
    if (existsSync(path)) throw new SegmentError('bad-name', `${path} exists`)
    const file = new SegmentFile(path, await disk.open(`${path}.tmp`, 'w+'))
    try {
      await file.write(encodeActiveHeader(), 0)
      await file.handle.sync()
      await disk.rename(`${path}.tmp`, path)
      await syncDirectoryOf(path, disk)
      return new ActiveSegment(file, new SegmentSummary(), 0)
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /**
   * Opens an active file after a stop, cutting a torn last block or an unfinished seal off (segment-format.md 9).
   * Throws SegmentError: `already-sealed` when the file is sealed, `bad-header`, `bad-frame`, `bad-block` and
   * `bad-order` when what is left is damaged, which no crash of a writer explains and nobody should cut silently;
   * `missing-rows` when durable blocks are gone. Nothing is cut then.
   * @param lastSeqMin the newest row that is known to have been in a durable block; then a block after it that does not
   *   decode was torn by a power cut, and is cut off. What follows it is written once more.
   */
  static async recover(
    path: string,
    { disk = systemDisk, lastSeqMin }: { disk?: SegmentDisk; lastSeqMin?: number | undefined } = {},
  ): Promise<ActiveSegment> {
    const file = new SegmentFile(path, await disk.open(path, 'r+'))
    try {
      using reader = file.lease()
      const { size } = await file.handle.stat()
      const summary = await recoverSummary(reader, size, lastSeqMin)
      if (summary.end < size) await file.handle.truncate(summary.end)
      // What is read after a kill or a failed write may not be on the disk, and counts as durable from now on.
      const unsure = summary.entries.find(({ maxSeq }) => maxSeq > (lastSeqMin ?? 0))
      if (unsure) await writeAgain(file, unsure.offset, summary.end)
      await file.handle.sync()
      await syncDirectoryOf(path, disk)
      return new ActiveSegment(file, summary, size - summary.end)
    } catch (error) {
      await file.close()
      throw inFile(path, error)
    }
  }

  get isSealed(): boolean {
    return this.#state.is === 'sealed'
  }

  get path(): string {
    return this.#file.path
  }

  /** The durable blocks, in order. */
  get blocks(): readonly BlockEntry[] {
    return this.#summary.entries
  }

  /** Bytes of blocks, length prefixes included. */
  get blockBytes(): number {
    return this.#summary.end - headerBytes
  }

  /** Seq of the last durable row, 0 without one. */
  get lastSeq(): number {
    return this.blocks.at(-1)?.maxSeq ?? 0
  }

  /**
   * Appends one block and resolves once it is durable. Seqs must continue after the last block.
   * Throws SegmentError: `bad-row` and `bad-block` before anything was written, `failed` after an earlier storage
   * error; a storage error itself is passed on. One append at a time.
   */
  async appendBlock(rows: readonly Row[]): Promise<BlockEntry> {
    const firstSeq = rows[0]?.seq
    if (firstSeq === undefined) throw new SegmentError('bad-block', 'a block needs rows')
    if (firstSeq <= this.lastSeq) {
      throw new SegmentError('bad-row', `seq ${firstSeq} does not follow ${this.lastSeq}`)
    }
    const body = encodeBlockBody(rows)
    const block = decodeBlock(body)
    return this.#write(async () => {
      const frame = await packFrame(body)
      const offset = this.#summary.end
      await this.#file.write(storedFrame(frame), offset)
      await this.#file.handle.datasync()
      const entry = describeBlock(block, offset, frame.length)
      this.#summary.addBlock(entry, block)
      return entry
    })
  }

  /**
   * Writes footer and header, after which the file is a sealed segment and this object only reads.
   * Throws SegmentError `bad-block` when there is no block to seal; errors otherwise as appendBlock.
   */
  async seal(): Promise<void> {
    if (this.blocks.length === 0) throw new SegmentError('bad-block', `${this.path} has no blocks to seal`)
    await this.#write(async () => {
      const { header, footer } = await this.#summary.seal(packFrame)
      await this.#file.write(footer, this.#summary.end)
      await this.#file.handle.sync()
      // The header lies within one sector. Whether or not it got there when this fails, what is on disk is whole:
      // a sealed segment, or an active one with a footer too much, which recover takes off.
      await this.#file.write(header, 0)
      await this.#file.handle.sync()
    })
    this.#state = { is: 'sealed' }
  }

  /** The stored zstd frame of a durable block, without its prefix. Throws as readBlock, except `bad-block`. */
  async readFrame(index: number): Promise<Uint8Array> {
    return readFrame(this.#file, entryAt(this.blocks, index))
  }

  /** A durable block. Throws SegmentError `no-such-block`, `closed`, `bad-frame` or `bad-block`. */
  async readBlock(index: number): Promise<BlockView> {
    return readBlock(this.#file, entryAt(this.blocks, index))
  }

  /** Waits for readers; a write in progress must have ended. */
  async close(): Promise<void> {
    await this.#file.close()
  }

  async #write<T>(write: () => Promise<T>): Promise<T> {
    const state = this.#state
    if (state.is === 'failed') {
      throw new SegmentError('failed', `an earlier write to ${this.path} failed`, { cause: state.cause })
    }
    if (state.is === 'sealed') throw new SegmentError('already-sealed', `${this.path} is sealed`)
    if (state.is === 'writing') throw new Error('invariant broken: two writers of one active segment')
    this.#state = { is: 'writing' }
    try {
      const result = await write()
      this.#state = { is: 'open' }
      return result
    } catch (cause) {
      this.#state = { is: 'failed', cause }
      throw cause
    }
  }
}
