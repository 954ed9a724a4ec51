import type { Block } from './block.ts'
import { LogSlice } from './log-slice.ts'

/** The newest blocks, within a bound of bytes: readers near the tip never touch the disk. */
export class MemoryTail {
  readonly #bytesMax: number
  #blocks: (Block | undefined)[] = []
  /** Index of the oldest block that counts; the places before it are empty, and are taken away in one go. */
  #start = 0
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  push(block: Block): void {
    this.#blocks.push(block)
    this.#bytes += block.buffer.length
    while (this.#bytes > this.#bytesMax && this.#start < this.#blocks.length - 1) {
      this.#bytes -= this.#blocks[this.#start]?.buffer.length ?? 0
      this.#blocks[this.#start++] = undefined
    }
    if (this.#start > 64 && this.#start > this.#blocks.length / 8) {
      this.#blocks = this.#blocks.slice(this.#start)
      this.#start = 0
    }
  }

  /** What stands behind `afterSeq`; undefined when the tail begins later than that, empty at the tip. */
  read(afterSeq: number, maxBytes: number): LogSlice[] | undefined {
    const oldest = this.#blocks[this.#start]
    if (!oldest || afterSeq + 1 < oldest.firstSeq) return undefined
    const slices: LogSlice[] = []
    let bytes = 0
    for (
      let i = this.#firstBlockAfter(afterSeq);
      i < this.#blocks.length && (slices.length === 0 || bytes < maxBytes);
      i++
    ) {
      const block = this.#blocks[i]
      if (!block) break
      const slice = new LogSlice(block, block.firstRowAfter(afterSeq))
      slices.push(slice)
      bytes += slice.bytes.length
    }
    return slices
  }

  #firstBlockAfter(seq: number): number {
    let low = this.#start
    let high = this.#blocks.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#blocks[middle]?.lastSeq ?? 0) > seq) high = middle
      else low = middle + 1
    }
    return low
  }
}
