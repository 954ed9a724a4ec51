import { headerSize, writeHeader } from '@tributary/fanout'
import type { EventKind } from '@tributary/protocol'
import { type RowKind, rowKind } from '@tributary/segment'
import type { VisibleRow } from '../archive/archive.ts'
import { eventKindOf } from '../archive/event-kind.ts'
import { firstIndex } from './first-index.ts'
import type { FrameRun } from './frame-run.ts'
import { renderRow } from './render.ts'
import { ownRendition } from './rendition.ts'

/** Rows that became visible together, rendered and framed once into one buffer. */
export class LiveRun implements FrameRun {
  readonly count: number
  readonly firstSeq: number
  readonly lastSeq: number
  /** All messages, one behind the other. */
  readonly frames: Buffer
  /** All were made when the rows became visible. */
  readonly made = 0
  readonly #seqs: Float64Array
  readonly #witnessedAts: Float64Array
  readonly #ends: Uint32Array
  readonly #kinds: Uint8Array
  readonly #dids: string[] = []
  readonly #collections: string[] = []
  /** Told of bytes that come to be kept with the run. */
  onKept: (bytes: number) => void = () => {}
  #kept = 0

  /** @param rows at least one, in seq order. */
  constructor(rows: readonly VisibleRow[]) {
    const count = rows.length
    this.count = count
    this.#seqs = new Float64Array(count)
    this.#witnessedAts = new Float64Array(count)
    this.#ends = new Uint32Array(count)
    this.#kinds = new Uint8Array(count)
    const texts: string[] = []
    const lengths: number[] = []
    let end = 0
    for (const [i, { row, recordJson }] of rows.entries()) {
      this.#seqs[i] = row.seq
      this.#witnessedAts[i] = row.witnessedAt
      this.#kinds[i] = row.kind
      this.#dids.push(row.did)
      this.#collections.push(row.collection)
      const text = renderRow(row, recordJson)
      const length = Buffer.byteLength(text)
      this.#ends[i] = end += headerSize(length) + length
      texts.push(text)
      lengths.push(length)
    }
    this.firstSeq = this.#seqs[0] ?? 0
    this.lastSeq = this.#seqs.at(-1) ?? 0
    this.frames = Buffer.allocUnsafeSlow(end)
    let at = 0
    for (const [i, text] of texts.entries()) {
      at = writeHeader(this.frames, at, 'text', lengths[i] ?? 0)
      at += this.frames.write(text, at)
    }
  }

  /** What the run costs to keep, about. */
  get bytes(): number {
    return this.frames.length + this.count * bytesPerKey + bytesPerRun + this.#kept
  }

  seqAt(i: number): number {
    return this.#seqs[i] ?? 0
  }

  /** Microseconds since 1970. */
  witnessedAtAt(i: number): number {
    return this.#witnessedAts[i] ?? 0
  }

  kindAt(i: number): EventKind {
    return eventKindOf(this.rowKindAt(i))
  }

  rowKindAt(i: number): RowKind {
    return (this.#kinds[i] ?? rowKind.create) as RowKind // as it was put there
  }

  didAt(i: number): string {
    return this.#dids[i] ?? ''
  }

  collectionAt(i: number): string {
    return this.#collections[i] ?? ''
  }

  frameAt(i: number): Uint8Array {
    return this.frames.subarray(this.#ends[i - 1] ?? 0, this.#ends[i])
  }

  /** Where the message of a row ends in `frames`. */
  endAt(i: number): number {
    return this.#ends[i] ?? 0
  }

  messageBytesAt(i: number): number {
    return ownRendition.messageBytes(this.frameAt(i))
  }

  firstAfter(seq: number): number {
    return firstIndex(0, this.count, (i) => this.seqAt(i) > seq)
  }

  keep(bytes: number): void {
    this.#kept += bytes
    this.onKept(bytes)
  }
}

/** The DID of a row, and its places in arrays. */
const bytesPerKey = 100
const bytesPerRun = 400
