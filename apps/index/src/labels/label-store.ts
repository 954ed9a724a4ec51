import type { IndexWriter } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Label } from './read-label.ts'

/** The history of labels, with the cursor of each labeler. */
export class LabelStore {
  readonly #writer: IndexWriter

  constructor(writer: IndexWriter) {
    this.#writer = writer
  }

  /** The last seq of a labeler that is dealt with; 0 before the first. */
  async cursor(labeler: Did): Promise<number> {
    const [row] = await this.#writer.write((batch) => batch.load('cursors', [sourceOf(labeler)]))
    return Number(row?.cursor ?? 0n)
  }

  /** Stores the labels of one message together with its position. Labels that are there already stay one row. */
  async store(labeler: Did, seq: number, labels: readonly Label[]): Promise<void> {
    const rows = labels.map(({ neg, ...label }) => ({ ...label, neg: neg ? 1n : 0n }))
    await this.#writer.write(async (batch) => {
      await batch.put('labels', rows)
      await batch.put('cursors', [{ source: sourceOf(labeler), cursor: BigInt(seq) }])
    })
  }

  /** Goes back to the labeler's oldest label. What is stored stays. */
  async rewind(labeler: Did): Promise<void> {
    await this.#writer.write((batch) => batch.put('cursors', [{ source: sourceOf(labeler), cursor: 0n }]))
  }
}

function sourceOf(labeler: Did): string {
  return `labels:${labeler}`
}
