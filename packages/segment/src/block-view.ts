import { type BlockLayout, blockLayout, columnWidths, emptyBodyBytes } from './block-layout.ts'
import { SegmentError } from './errors.ts'
import { readI64, readU64, viewOf } from './integers.ts'
import { segmentLimits } from './limits.ts'
import { type BlobColumn, pickRows } from './pick-rows.ts'
import type { Row, RowKind } from './row.ts'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Columns of text, in the order in which a body has them. */
export const textColumns = { collection: 0, did: 1, rkey: 2, rev: 3 } as const

type TextColumnIndex = (typeof textColumns)[keyof typeof textColumns]

/**
 * A decoded block, still in columns: reading one column of one row allocates nothing but, at most, a short string.
 * Accessors take a row index from 0 and throw RangeError outside 0..count-1.
 * Strings are slices of a whole column's text and payloads are views of the body, so keeping one keeps its block.
 */
export class BlockView {
  readonly count: number
  /** Size of the decompressed body, the block index's `uncompressedSize`. */
  readonly bodyBytes: number
  readonly #body: Uint8Array
  readonly #view: DataView
  readonly #layout: BlockLayout
  readonly #collections: TextColumn
  readonly #dids: TextColumn
  readonly #rkeys: TextColumn
  readonly #revs: TextColumn
  readonly #payloadsAt: number
  readonly #payloadEnds: Uint32Array
  /** Collections, DIDs, rkeys, revs, payloads, as they stand in the body. */
  readonly #blobs: BlobColumn[] = []

  /** Use decodeBlock. */
  constructor(body: Uint8Array) {
    if (body.length < emptyBodyBytes) {
      throw new SegmentError('bad-block', 'block body ends before its row count')
    }
    const view = viewOf(body)
    const count = view.getUint32(0, true)
    if (count > segmentLimits.blockRows) throw new SegmentError('bad-block', `block claims ${count} rows`)
    const layout = blockLayout(count)
    if (body.length < layout.blobs) {
      throw new SegmentError('bad-block', `block body is too short for ${count} rows`)
    }
    this.count = count
    this.bodyBytes = body.length
    this.#body = body
    this.#view = view
    this.#layout = layout
    this.#checkNumbers()

    let at = layout.blobs
    const textColumn = (name: 'collection' | 'did' | 'rkey' | 'rev'): TextColumn => {
      const start = at
      const ends = this.#ends(`${name}Lengths`)
      at += ends.at(-1) ?? 0
      if (at > body.length) throw new SegmentError('bad-block', `block body ends inside its ${name} column`)
      this.#blobs.push({ start, ends })
      return decodeTextColumn(name, body.subarray(start, at), ends)
    }
    this.#collections = textColumn('collection')
    this.#dids = textColumn('did')
    this.#rkeys = textColumn('rkey')
    this.#revs = textColumn('rev')
    this.#payloadsAt = at
    this.#payloadEnds = this.#ends('payloadLengths')
    this.#blobs.push({ start: at, ends: this.#payloadEnds })
    if (at + (this.#payloadEnds.at(-1) ?? 0) !== body.length) {
      throw new SegmentError('bad-block', 'payload lengths do not add up to the end of the block body')
    }
  }

  seqAt(i: number): number {
    return readU64(this.#view, this.#layout.seqs + 8 * this.#checked(i), 'bad-block')
  }

  witnessedAtAt(i: number): number {
    return readI64(this.#view, this.#layout.witnessedAts + 8 * this.#checked(i), 'bad-block')
  }

  indexedAtAt(i: number): number {
    return readI64(this.#view, this.#layout.indexedAts + 8 * this.#checked(i), 'bad-block')
  }

  kindAt(i: number): RowKind {
    return this.#view.getUint8(this.#layout.kinds + this.#checked(i)) as RowKind // Checked in the constructor.
  }

  collectionAt(i: number): string {
    return this.#collections(this.#checked(i))
  }

  didAt(i: number): string {
    return this.#dids(this.#checked(i))
  }

  rkeyAt(i: number): string {
    return this.#rkeys(this.#checked(i))
  }

  revAt(i: number): string {
    return this.#revs(this.#checked(i))
  }

  /** The whole body, for whoever copies texts as bytes. It must not be changed. */
  get body(): Uint8Array {
    return this.#body
  }

  /** Where in the body the bytes of a text of a row begin. They end where `textEnd` says. */
  textStart(column: TextColumnIndex, i: number): number {
    const blob = this.#blob(column)
    return blob.start + startOf(blob.ends, this.#checked(i))
  }

  textEnd(column: TextColumnIndex, i: number): number {
    const blob = this.#blob(column)
    return blob.start + (blob.ends[this.#checked(i)] ?? 0)
  }

  payloadAt(i: number): Uint8Array {
    const ends = this.#payloadEnds
    const start = this.#payloadsAt + startOf(ends, this.#checked(i))
    return this.#body.subarray(start, this.#payloadsAt + (ends[i] ?? 0))
  }

  /** The length of the payload, which costs less to know than the payload. */
  payloadBytesAt(i: number): number {
    const ends = this.#payloadEnds
    return (ends[this.#checked(i)] ?? 0) - startOf(ends, i)
  }

  rowAt(i: number): Row {
    return {
      seq: this.seqAt(i),
      witnessedAt: this.witnessedAtAt(i),
      indexedAt: this.indexedAtAt(i),
      kind: this.kindAt(i),
      collection: this.collectionAt(i),
      did: this.didAt(i),
      rkey: this.rkeyAt(i),
      rev: this.revAt(i),
      payload: this.payloadAt(i),
    }
  }

  rows(): Row[] {
    return Array.from({ length: this.count }, (_, i) => this.rowAt(i))
  }

  /** The body of a block that has only these rows. @param rows their indices, ascending. */
  bodyWith(rows: readonly number[]): Uint8Array {
    return pickRows(this.#body, this.#blobs, rows)
  }

  /** Index of the first row with a seq above `afterSeq`; `count` when there is none. */
  firstAfter(afterSeq: number): number {
    let low = 0
    let high = this.count
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.seqAt(middle) > afterSeq) high = middle
      else low = middle + 1
    }
    return low
  }

  #blob(column: TextColumnIndex): BlobColumn {
    return this.#blobs[column] as BlobColumn // the constructor has put five there
  }

  #checked(i: number): number {
    if (!(i >= 0 && i < this.count)) throw new RangeError(`row ${i} of a block with ${this.count} rows`)
    return i
  }

  #checkNumbers(): void {
    let previousSeq = 0
    for (let i = 0; i < this.count; i++) {
      const seq = this.seqAt(i)
      if (seq <= previousSeq) throw new SegmentError('bad-block', `seq ${seq} follows ${previousSeq}`)
      previousSeq = seq
      this.witnessedAtAt(i)
      this.indexedAtAt(i)
      const kind = this.kindAt(i)
      if (kind < 1 || kind > 7) throw new SegmentError('bad-block', `row ${seq} has the unknown kind ${kind}`)
    }
  }

  /** Running sums of a length column; fails before a sum could leave the body. */
  #ends(column: Extract<keyof BlockLayout, `${string}Lengths`>): Uint32Array {
    const ends = new Uint32Array(this.count)
    const view = this.#view
    const start = this.#layout[column]
    const width = columnWidths[column]
    let sum = 0
    for (let i = 0; i < this.count; i++) {
      const at = start + width * i
      sum +=
        width === 1 ? view.getUint8(at) : width === 2 ? view.getUint16(at, true) : view.getUint32(at, true)
      if (sum > this.bodyBytes) throw new SegmentError('bad-block', 'column lengths exceed the block body')
      ends[i] = sum
    }
    return ends
  }
}

/** Reads an uncompressed block body. Throws SegmentError `bad-block` for anything segment-format.md 4.1 forbids. */
export function decodeBlock(body: Uint8Array): BlockView {
  return new BlockView(body)
}

type TextColumn = (i: number) => string

/** One decode for the whole column; byte offsets are character offsets while all of it is ASCII. */
function decodeTextColumn(name: string, bytes: Uint8Array, ends: Uint32Array): TextColumn {
  try {
    const text = decoder.decode(bytes)
    if (text.length === bytes.length) return (i) => text.slice(startOf(ends, i), ends[i])
    const values = Array.from(ends, (end, i) => decoder.decode(bytes.subarray(startOf(ends, i), end)))
    return (i) => values[i] ?? ''
  } catch (cause) {
    throw new SegmentError('bad-block', `the ${name} column is not UTF-8`, { cause })
  }
}

function startOf(ends: Uint32Array, i: number): number {
  return i === 0 ? 0 : (ends[i - 1] ?? 0)
}
