import type { EventKind } from '@tributary/protocol'
import type { BlockView, RowKind } from '@tributary/segment'
import { eventKindOf } from '../archive/event-kind.ts'
import type { FrameRun } from './frame-run.ts'
import { frameRow } from './render.ts'
import { ownRendition } from './rendition.ts'

/** Told of a row of the archive that cannot be shown; readers pass over it. */
export type OnUnreadableRow = (seq: number, error: unknown) => void

const nothing = new Uint8Array(0)
/** What a row of a decoded block takes beside its body, about, and what a message takes beside its bytes. */
const bytesPerRow = 200
const bytesPerFrame = 100

/** A decoded block whose messages are rendered when the first reader wants them, and kept for the others. */
export class BlockRun implements FrameRun {
  readonly count: number
  readonly lastSeq: number
  readonly #block: BlockView
  readonly #frames: (Uint8Array | undefined)[]
  readonly #onUnreadable: OnUnreadableRow
  /** Told of bytes that come to be kept with the run. */
  onKept: (bytes: number) => void = () => {}
  #kept = 0
  #made = 0

  /** @param lastSeq the end of the block's envelope, which may lie above its last row. */
  constructor(block: BlockView, lastSeq: number, onUnreadable: OnUnreadableRow) {
    this.count = block.count
    this.lastSeq = lastSeq
    this.#block = block
    this.#frames = Array.from({ length: block.count })
    this.#onUnreadable = onUnreadable
  }

  /** What the run costs to keep with the messages that were rendered so far, about. */
  get bytes(): number {
    return this.#block.bodyBytes + this.count * bytesPerRow + this.#kept
  }

  get made(): number {
    return this.#made
  }

  seqAt(i: number): number {
    return this.#block.seqAt(i)
  }

  kindAt(i: number): EventKind {
    return eventKindOf(this.#block.kindAt(i))
  }

  rowKindAt(i: number): RowKind {
    return this.#block.kindAt(i)
  }

  didAt(i: number): string {
    return this.#block.didAt(i)
  }

  collectionAt(i: number): string {
    return this.#block.collectionAt(i)
  }

  frameAt(i: number): Uint8Array {
    return (this.#frames[i] ??= this.#frame(i))
  }

  messageBytesAt(i: number): number {
    return ownRendition.messageBytes(this.frameAt(i))
  }

  firstAfter(seq: number): number {
    return this.#block.firstAfter(seq)
  }

  keep(bytes: number): void {
    this.#kept += bytes
    this.onKept(bytes)
  }

  /** Index of the first row that was witnessed at or after a time; `count` when there is none. */
  firstWitnessedAt(micros: number): number {
    for (let i = 0; i < this.count; i++) if (this.#block.witnessedAtAt(i) >= micros) return i
    return this.count
  }

  #frame(i: number): Uint8Array {
    const row = this.#block.rowAt(i)
    this.#made++
    try {
      const frame = frameRow(row)
      // A value of one byte may take 14 as JSON, so the block does not tell what its messages take.
      this.keep(frame.length + bytesPerFrame)
      return frame
    } catch (error) {
      this.#onUnreadable(row.seq, error)
      return nothing
    }
  }
}

/** Blocks being read and decoded at a time, for all readers together: each may take some ten megabytes. */
const loadsMax = 4

/** Decoded blocks, shared by all readers and bounded in bytes; the least recently used goes first. */
export class BlockCache {
  readonly #bytesMax: number
  /** Least recently used first. */
  readonly #runs = new Map<string, BlockRun>()
  readonly #loading = new Map<string, Promise<BlockRun>>()
  readonly #waiting: (() => void)[] = []
  #loads = 0
  #bytes = 0
  #clears = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Lets go of all blocks, and does not keep those that are being read. Those who read one have it still. */
  clear(): void {
    this.#clears++
    for (const run of this.#runs.values()) run.onKept = () => {}
    this.#runs.clear()
    this.#loading.clear()
    this.#bytes = 0
  }

  /** The block of a key, loaded at most once at a time and when its turn comes. A failed load is not kept. */
  async get(key: string, load: () => Promise<BlockRun>): Promise<BlockRun> {
    const run = this.#runs.get(key)
    if (run) {
      this.#runs.delete(key)
      this.#runs.set(key, run)
      return run
    }
    let loading = this.#loading.get(key)
    if (!loading) {
      loading = this.#load(key, load)
      this.#loading.set(key, loading)
    }
    return loading
  }

  async #load(key: string, load: () => Promise<BlockRun>): Promise<BlockRun> {
    const clears = this.#clears
    if (this.#loads < loadsMax) this.#loads++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      const run = await load()
      if (clears === this.#clears) this.#keep(key, run)
      return run
    } finally {
      if (clears === this.#clears) this.#loading.delete(key)
      const next = this.#waiting.shift()
      if (next) next()
      else this.#loads--
    }
  }

  #keep(key: string, run: BlockRun): void {
    this.#bytes += run.bytes
    run.onKept = (bytes) => {
      this.#bytes += bytes
      this.#evict()
    }
    this.#runs.set(key, run)
    this.#evict()
  }

  /** Keeps the newest whatever its size. */
  #evict(): void {
    for (const [oldestKey, oldest] of this.#runs) {
      if (this.#bytes <= this.#bytesMax || this.#runs.size === 1) break
      this.#runs.delete(oldestKey)
      this.#bytes -= oldest.bytes
      oldest.onKept = () => {}
    }
  }
}
