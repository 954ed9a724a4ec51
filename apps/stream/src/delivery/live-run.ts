import { headerSize, writeHeader } from '@tributary/fanout'
import type { EventKind } from '@tributary/protocol'
import { type Row, type RowKind, rowKind } from '@tributary/segment'
import type { VisibleRow } from '../archive/archive.ts'
import { eventKindOf } from '../archive/event-kind.ts'
import { firstIndex } from './first-index.ts'
import type { FrameRun } from './frame-run.ts'
import { messageLength, renderRow, type RowMessage, writeMessage } from './render.ts'
import { ownRendition } from './rendition.ts'

/** What is asked of a row. It is one object, because most runs have one row, for which an array of each would take more. */
interface RowFacts extends Pick<Row, 'seq' | 'witnessedAt' | 'kind' | 'did' | 'collection'> {
  /** Where its message ends in `frames`. */
  end: number
}

/** Rows that became visible together, rendered and framed once into one buffer. */
export class LiveRun implements FrameRun {
  readonly count: number
  readonly firstSeq: number
  readonly lastSeq: number
  /** All messages, one behind the other. */
  readonly frames: Buffer
  /** All were made when the rows became visible. */
  readonly made = 0
  readonly #rows: readonly RowFacts[]
  /** Told of bytes that come to be kept with the run. */
  onKept: (bytes: number) => void = () => {}
  #kept = 0

  /** @param rows at least one, in seq order. */
  constructor(rows: readonly VisibleRow[]) {
    this.count = rows.length
    const messages: RowMessage[] = []
    const lengths: number[] = []
    let end = 0
    this.#rows = rows.map(({ row, content }) => {
      const { seq, witnessedAt, kind, did, collection } = row
      const { text, content: shown } = renderRow(row, content)
      const message = { text, content: content ? shown : Buffer.from(shown) }
      const length = messageLength(message)
      messages.push(message)
      lengths.push(length)
      end += headerSize(length) + length
      return { seq, witnessedAt, kind, did, collection, end }
    })
    this.firstSeq = this.seqAt(0)
    this.lastSeq = this.seqAt(this.count - 1)
    this.frames = Buffer.allocUnsafeSlow(end)
    let at = 0
    for (const [i, message] of messages.entries()) {
      at = writeMessage(message, this.frames, writeHeader(this.frames, at, 'text', lengths[i] ?? 0))
    }
  }

  /** What the run costs to keep, about. */
  get bytes(): number {
    return this.frames.length + this.count * bytesPerRow + bytesPerRun + this.#kept
  }

  seqAt(i: number): number {
    return this.#rows[i]?.seq ?? 0
  }

  /** Microseconds since 1970. */
  witnessedAtAt(i: number): number {
    return this.#rows[i]?.witnessedAt ?? 0
  }

  kindAt(i: number): EventKind {
    return eventKindOf(this.rowKindAt(i))
  }

  rowKindAt(i: number): RowKind {
    return this.#rows[i]?.kind ?? rowKind.create
  }

  didAt(i: number): string {
    return this.#rows[i]?.did ?? ''
  }

  collectionAt(i: number): string {
    return this.#rows[i]?.collection ?? ''
  }

  frameAt(i: number): Uint8Array {
    return this.frames.subarray(this.endAt(i - 1), this.endAt(i))
  }

  /** Where the message of a row ends in `frames`. */
  endAt(i: number): number {
    return this.#rows[i]?.end ?? 0
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

/** What is asked of a row, with its DID. */
const bytesPerRow = 160
/** The objects of a run and of its buffer. */
const bytesPerRun = 650
