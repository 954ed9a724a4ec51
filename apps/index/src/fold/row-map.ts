import type { Batch, RowOf, TableName } from '@tributary/index-store'

type Column<T extends TableName> = keyof RowOf<T> & string

/**
 * Rows of one table in memory, by the first column of their key: those that were loaded, as they are after the events so
 * far, and which of them are to be written. `C` are the columns that are looked at again.
 */
export class RowMap<T extends TableName, C extends Column<T> = Column<T>> {
  readonly #table: T
  readonly #key: C
  readonly #columns: readonly C[]
  readonly #known = new Map<string, Pick<RowOf<T>, C> | undefined>()
  /** Undefined for rows to be removed. */
  readonly #changed = new Map<string, RowOf<T> | undefined>()

  constructor(table: T, columns: readonly [key: C, ...C[]]) {
    this.#table = table
    this.#key = columns[0]
    this.#columns = columns
  }

  /** Rows that are there already are not loaded again. */
  async load(batch: Batch, keys: Iterable<string>): Promise<void> {
    const missing = [...new Set(keys)].filter((key) => !this.#known.has(key))
    for (const key of missing) this.#known.set(key, undefined)
    for (const row of await batch.load(this.#table, missing, this.#columns))
      this.#known.set(String(row[this.#key]), row)
  }

  /** The row; undefined when there is none. It must have been loaded, put or removed. */
  get(key: string): Pick<RowOf<T>, C> | undefined {
    const row = this.#known.get(key)
    if (row === undefined && !this.#known.has(key)) throw new Error(`${this.#table} ${key} was not loaded`)
    return row
  }

  put(row: RowOf<T>): void {
    const key = String(row[this.#key])
    this.#changed.set(key, row)
    this.#known.set(key, row)
  }

  remove(key: string): void {
    this.#changed.set(key, undefined)
    this.#known.set(key, undefined)
  }

  /** Writes what has changed. */
  async flush(batch: Batch): Promise<void> {
    const [gone, there]: [string[], RowOf<T>[]] = [[], []]
    for (const [key, row] of this.#changed) {
      if (row === undefined) gone.push(key)
      else there.push(row)
    }
    this.#changed.clear()
    await batch.remove(this.#table, gone)
    await batch.put(this.#table, there)
    // Columns that nobody looks at again may be large.
    for (const row of there) {
      const kept = Object.fromEntries(this.#columns.map((column) => [column, row[column]]))
      this.#known.set(String(row[this.#key]), kept as Pick<RowOf<T>, C>) // just those columns
    }
  }

  /** Forgets what was loaded of keys that begin so; what has changed must have been written. */
  forget(prefix: string): void {
    for (const key of this.#known.keys()) if (key.startsWith(prefix)) this.#known.delete(key)
  }
}
