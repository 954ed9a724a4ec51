import type { IndexWriter, Steps } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Label } from './read-label.ts'

/** The history of labels, with the cursor of each labeler. */
export class LabelStore {
  readonly #connection
  readonly #sql

  constructor(connection: IndexWriter) {
    const { sqlite } = connection
    this.#connection = connection
    this.#sql = {
      cursor: sqlite.prepare<[string], bigint>('select cursor from cursors where source = ?').pluck(),
      moveCursor: sqlite.prepare<[string, bigint]>(
        'insert into cursors (source, cursor) values (?, ?) on conflict (source) do update set cursor = excluded.cursor',
      ),
      put: sqlite.prepare<(string | bigint | null)[]>(
        'insert or ignore into labels (src, did, uri, cid, val, neg, cts, exp) values (?, ?, ?, ?, ?, ?, ?, ?)',
      ),
    }
  }

  /** The last seq of a labeler that is dealt with; 0 before the first. */
  cursor(labeler: Did): number {
    return Number(this.#sql.cursor.get(sourceOf(labeler)) ?? 0n)
  }

  /** Stores the labels of one message together with its position. Labels that are there already stay one row. */
  async store(labeler: Did, seq: number, labels: readonly Label[]): Promise<void> {
    await this.#connection.write(() => this.#store(labeler, seq, labels))
  }

  /** Goes back to the labeler's oldest label. What is stored stays. */
  async rewind(labeler: Did): Promise<void> {
    await this.#connection.writeAtOnce(() => this.#sql.moveCursor.run(sourceOf(labeler), 0n))
  }

  *#store(labeler: Did, seq: number, labels: readonly Label[]): Steps<void> {
    for (const { src, did, uri, cid, val, neg, cts, exp } of labels) {
      this.#sql.put.run(src, did, uri, cid, val, neg ? 1n : 0n, cts, exp)
      yield
    }
    this.#sql.moveCursor.run(sourceOf(labeler), BigInt(seq))
  }
}

function sourceOf(labeler: Did): string {
  return `labels:${labeler}`
}
