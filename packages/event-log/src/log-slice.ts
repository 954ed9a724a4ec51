import type { Block, RecordMeta } from './block.ts'

/** The records of one block from some row on: what a reader gets. Rows count from 0 within the slice. */
export class LogSlice {
  readonly #block: Block
  readonly #from: number
  readonly #to: number
  readonly #ownMemory: ArrayBuffer | undefined

  /** @param ownMemory what the block stands in, unless others have it too. */
  constructor(block: Block, from: number, ownMemory?: ArrayBuffer) {
    this.#block = block
    this.#from = from
    this.#to = block.count
    this.#ownMemory = ownMemory
  }

  get count(): number {
    return this.#to - this.#from
  }

  /**
   * Gives the memory of a slice that came from the disk back at once, because garbage collection would let tens of
   * megabytes pile up first. Nothing of the same read may be used after this. A slice of the memory tail is not freed:
   * other readers have it.
   */
  free(): void {
    if (this.#ownMemory?.detached === false) this.#ownMemory.transfer(0)
  }

  get firstSeq(): number {
    return this.#block.seqAt(this.#from)
  }

  get lastSeq(): number {
    return this.#block.seqAt(this.#to - 1)
  }

  /** The payloads, one behind the other. */
  get bytes(): Buffer {
    return this.#block.payloads(this.#from, this.#to)
  }

  seqAt(row: number): number {
    return this.#block.seqAt(this.#from + row)
  }

  timeMsAt(row: number): number {
    return this.#block.timeMsAt(this.#from + row)
  }

  kindAt(row: number): number {
    return this.#block.kindAt(this.#from + row)
  }

  accountAt(row: number): bigint {
    return this.#block.accountAt(this.#from + row)
  }

  metaAt(row: number): RecordMeta {
    return this.#block.metaAt(this.#from + row)
  }

  payloadAt(row: number): Buffer {
    return this.#block.payloadAt(this.#from + row)
  }
}
