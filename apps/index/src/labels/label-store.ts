import type { IndexWriter, RowOf } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Label } from './read-label.ts'

/** Labels of one labeler that are compared with its list: 100 MB. Of more, the rest is not taken back. */
const comparedMax = 200_000
/** Labels that are written before others have their transactions. */
const rowsPerSplit = 500

export type StoredLabel = RowOf<'labels'>

/** The history of labels, with the cursor of each labeler. */
export class LabelStore {
  readonly #writer: IndexWriter

  constructor(writer: IndexWriter) {
    this.#writer = writer
  }

  /** The seq of the labeler's message that was dealt with last; 0 before the first. */
  async cursor(labeler: Did): Promise<number> {
    const [row] = await this.#writer.write((batch) => batch.load('cursors', [sourceOf(labeler)]))
    return Number(row?.cursor ?? 0n)
  }

  /** Stores the labels of one message together with its position. Labels that are there already stay one row. */
  async store(labeler: Did, seq: number, labels: readonly Label[]): Promise<void> {
    await this.#writer.write(async (batch) => {
      await batch.put('labels', labels.map(rowOf))
      await batch.put('cursors', [{ source: sourceOf(labeler), cursor: BigInt(seq) }])
    })
  }

  /** Stores labels that did not come with the stream. */
  async add(labels: readonly Label[]): Promise<void> {
    await this.#writer.write((batch) => batch.put('labels', labels.map(rowOf)))
  }

  /**
   * The labels of a labeler that it has not taken back, by `labelKey`: of labels with the same key the newest. They are read
   * in many transactions, so labels that come meanwhile may be among them or not.
   */
  async inForce(labeler: Did): Promise<Map<string, StoredLabel>> {
    const found = new Map<string, StoredLabel>()
    await this.#writer.write(async (batch) => {
      // Of one account and value they come in the order of their times, negations after labels.
      for await (const page of batch.pages('labels')) {
        for (const row of page) {
          if (row.src !== labeler) continue
          const key = labelKey(row.uri, row.cid, row.val)
          if (row.neg === 1n) found.delete(key)
          else if (found.size < comparedMax || found.has(key)) found.set(key, row)
        }
        await batch.split()
      }
    })
    return found
  }

  /** Stores that the labeler no longer has these labels. Those that it gives a later time are in force again. */
  async takeBack(labels: readonly StoredLabel[]): Promise<void> {
    const negations = labels.map((label) => ({ ...label, neg: 1n, exp: null }))
    await this.#writer.write(async (batch) => {
      for (let at = 0; at < negations.length; at += rowsPerSplit) {
        await batch.put('labels', negations.slice(at, at + rowsPerSplit))
        await batch.split()
      }
    })
  }

  /** Whether all labels of a labeler are to be read again from its list. */
  async isListingDue(labeler: Did): Promise<boolean> {
    const rows = await this.#writer.write((batch) => batch.load('cursors', [listingOf(labeler)]))
    return rows.length > 0
  }

  async setListingDue(labeler: Did, isDue: boolean): Promise<void> {
    const source = listingOf(labeler)
    await this.#writer.write((batch) =>
      isDue ? batch.put('cursors', [{ source, cursor: 1n }]) : batch.remove('cursors', [source]),
    )
  }

  /** Goes back to the labeler's oldest label. What is stored stays. */
  async rewind(labeler: Did): Promise<void> {
    await this.#writer.write((batch) => batch.put('cursors', [{ source: sourceOf(labeler), cursor: 0n }]))
  }
}

/** What a label is about. Others with the same key take its place. */
export function labelKey(uri: string, cid: unknown, val: string): string {
  return `${uri} ${typeof cid === 'string' ? cid : ''} ${val}`
}

function rowOf({ neg, ...label }: Label): StoredLabel {
  return { ...label, neg: neg ? 1n : 0n }
}

/** A DID has no space. */
function listingOf(labeler: Did): string {
  return `${sourceOf(labeler)} listing`
}

function sourceOf(labeler: Did): string {
  return `labels:${labeler}`
}
