import { systemClock, type Clock } from '@tributary/lanes'
import type { Row } from '@tributary/segment'
import { segmentLimits } from '@tributary/segment'

export interface BlockWriterOptions {
  segments: { append(rows: readonly Row[]): Promise<unknown> }
  /** Longest time that a row waits for its block, in milliseconds. */
  ageMsMax: number
  /** Rows that are in no block take too much memory elsewhere: they are written, though they do not fill a block. */
  isPressed: () => boolean
  /** Rows up to `seq` are in blocks. */
  onWritten: (seq: number) => void
  onFailure: (error: Error) => void
  /** Default: that of the machine. */
  clock?: Clock
}

const rowsMax = segmentLimits.blockRowsDefault
/** Payload bytes at which a block is full even with fewer rows: it has to be decoded in one piece. */
const payloadBytesMax = 8 * 1024 * 1024
/** Rows and payload bytes that wait for blocks, above which no more should come. */
const pendingRowsMax = 16 * rowsMax
const pendingBytesMax = 64 * 1024 * 1024

/**
 * Gathers durable rows into blocks: a block is written when it is full, when its first row is old, when its rows take too
 * much memory, or on demand.
 */
export class BlockWriter {
  readonly #options: BlockWriterOptions
  #pending: Row[] = []
  #pendingBytes = 0
  #writing: Promise<void> | undefined
  #timer: Disposable | undefined
  #failure: Error | undefined

  constructor(options: BlockWriterOptions) {
    this.#options = options
  }

  /** Rows in no block yet. */
  get pendingRows(): number {
    return this.#pending.length
  }

  /** Whether more rows should come. If not, a block is begun, so that there is room soon. */
  askForRoom(): boolean {
    const isFull =
      this.#pendingBytes > pendingBytesMax ||
      this.#pending.length > pendingRowsMax ||
      this.#options.isPressed()
    if (isFull && this.#pending.length > 0 && !this.#failure) this.#start(() => this.#isBlockDue())
    return !isFull
  }

  /** Takes the next rows, in seq order. */
  add(rows: readonly Row[]): void {
    for (const row of rows) {
      this.#pending.push(row)
      this.#pendingBytes += row.payload.length
    }
    if (this.#failure || this.#pending.length === 0) return
    if (this.#isBlockDue()) this.#start(() => this.#isBlockDue())
    else this.#startSoon()
  }

  /** Writes every row there is now. @throws the storage error that kept it from doing so. */
  async flush(): Promise<void> {
    const lastSeq = this.#pending.at(-1)?.seq ?? 0
    const isWanted = (): boolean => (this.#pending[0]?.seq ?? Infinity) <= lastSeq
    while (isWanted()) {
      if (this.#failure) throw this.#failure
      this.#start(isWanted)
      await this.#writing
    }
  }

  /** Writes what there is and stops. */
  async close(): Promise<void> {
    try {
      await this.flush()
    } finally {
      this.#timer?.[Symbol.dispose]()
    }
  }

  #isBlockDue(): boolean {
    const isFull = this.#pending.length >= rowsMax || this.#pendingBytes >= payloadBytesMax
    return isFull || this.#options.isPressed()
  }

  #startSoon(): void {
    const { clock = systemClock, ageMsMax } = this.#options
    this.#timer ??= clock.after(ageMsMax, () => this.#start(() => true))
  }

  #start(isWanted: () => boolean): void {
    this.#writing ??= this.#write(isWanted).finally(() => {
      this.#writing = undefined
      // It may have been asked for room meanwhile, and nobody asks again before there is some.
      const hasMore = this.#pending.length > 0 && !this.#failure
      if (hasMore && this.#isBlockDue()) this.#start(() => this.#isBlockDue())
    })
  }

  /** One block after the other for as long as one is wanted. The rows of a block stay pending until it is durable. */
  async #write(isWanted: () => boolean): Promise<void> {
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    try {
      // When the timer runs out, the rows that set it may have gone into a block already.
      while (this.#pending.length > 0 && isWanted()) {
        const rows = this.#nextBlock()
        await this.#options.segments.append(rows)
        this.#pending = this.#pending.slice(rows.length)
        for (const row of rows) this.#pendingBytes -= row.payload.length
        this.#options.onWritten(rows.at(-1)?.seq ?? 0)
      }
    } catch (error) {
      this.#failure = error as Error // the package throws errors only
      this.#options.onFailure(this.#failure)
      return
    }
    if (this.#pending.length > 0) this.#startSoon()
  }

  #nextBlock(): Row[] {
    let bytes = 0
    const end = this.#pending.findIndex((row, i) => {
      bytes += row.payload.length
      return i > 0 && (i >= rowsMax || bytes > payloadBytesMax)
    })
    return this.#pending.slice(0, end === -1 ? undefined : end)
  }
}
