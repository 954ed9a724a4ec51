import type Database from 'better-sqlite3'

export interface LogTableOptions<Row> {
  /** A table with these columns, and `id INTEGER PRIMARY KEY AUTOINCREMENT`. */
  table: string
  /** The column of each field. */
  columns: { readonly [Field in keyof Row & string]: string }
  /** The field that says whose bound a row counts against. Its column needs an index of its own, with the id. */
  share: keyof Row & string
  rowsPerShareMax: number
  /** Default: any number. */
  rowsMax?: number
  /** Older rows are taken out. */
  ageMsMax: number
}

/** Fields that must be as given, and the page. */
export type LogQuery<Row> = { readonly [Field in keyof Row]?: Row[Field] | string | undefined } & {
  limit: number
  /** Rows older than this id. */
  before?: number
}

type Value = string | number | null

/** Old rows that are taken out at a time. */
const forgottenMax = 1000

/**
 * Rows that operators read, newest first, in a table of SQLite. Bounded in age, and in number for each share, so that the
 * flood of one cause does not push out what is known of another.
 */
export class LogTable<Row extends { atMs: number }> {
  readonly #db: Database.Database
  readonly #options: LogTableOptions<Row>
  readonly #insert
  readonly #newestId
  readonly #trim
  readonly #forget
  /** Rows of each share. */
  readonly #counts = new Map<Value, number>()

  constructor(db: Database.Database, options: LogTableOptions<Row>) {
    this.#db = db
    this.#options = options
    const { table, columns, share } = options
    const [names, shareColumn] = [Object.values<string>(columns), columns[share]]
    this.#insert = db.prepare<Value[]>(
      `INSERT INTO ${table} (${names.join()}) VALUES (${names.map(() => '?').join()})`,
    )
    this.#newestId = db.prepare<[], number | null>(`SELECT max(id) FROM ${table}`).pluck()
    this.#trim = db.prepare<[Value, number]>(
      `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE ${shareColumn} = ? ORDER BY id LIMIT ?)`,
    )
    this.#forget = db
      .prepare<[number, number], Value>(
        `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} ORDER BY id LIMIT ${forgottenMax})
           AND (${columns.atMs} < ? OR id <= ?) RETURNING ${shareColumn}`,
      )
      .pluck()
    const counts = db.prepare<[], { share: Value; rows: number }>(
      `SELECT ${shareColumn} AS share, count(*) AS rows FROM ${table} GROUP BY ${shareColumn}`,
    )
    for (const { share: each, rows } of counts.all()) this.#counts.set(each, rows)
  }

  /** Stores rows, and takes out what is too old or too much, in one transaction. */
  add(rows: readonly Row[], nowMs: number): void {
    const { columns, share, rowsPerShareMax, rowsMax = Infinity, ageMsMax } = this.#options
    const fields = Object.keys(columns) as (keyof Row & string)[] // as its type says
    const of = (row: Row, field: keyof Row): Value => row[field] as Value // a column holds nothing else
    this.#db
      .transaction(() => {
        const idMin = (this.#newestId.get() ?? 0) + rows.length - rowsMax
        for (const each of this.#forget.all(nowMs - ageMsMax, idMin)) this.#count(each, -1)
        for (const row of rows) {
          this.#insert.run(...fields.map((field) => of(row, field)))
          this.#count(of(row, share), 1)
        }
        for (const each of new Set(rows.map((row) => of(row, share)))) {
          const over = this.#count(each, 0) - rowsPerShareMax
          if (over > 0) this.#count(each, -this.#trim.run(each, over).changes)
        }
      })
      .immediate()
  }

  /** Newest first. @param sinceMs older rows are left out. */
  list(
    { limit, before = Number.MAX_SAFE_INTEGER, ...wanted }: LogQuery<Row>,
    sinceMs: number = 0,
  ): (Row & { id: number })[] {
    const { table, columns } = this.#options
    const given = Object.entries<unknown>(wanted).filter(([, value]) => value !== undefined)
    const named = columns as Readonly<Record<string, string>> // fields of a query are fields of a row
    const conditions = given.map(([field]) => `AND ${named[field]} = ?`)
    const selected = Object.entries<string>(columns).map(([field, column]) => `${column} AS ${field}`)
    return this.#db
      .prepare<unknown[], Row & { id: number }>(
        `SELECT id, ${selected.join()} FROM ${table}
         WHERE id < ? AND ${columns.atMs} >= ? ${conditions.join(' ')} ORDER BY id DESC LIMIT ?`,
      )
      .all(before, sinceMs, ...given.map(([, value]) => value), limit)
  }

  /** Changes the number of rows of a share. Returns it. */
  #count(share: Value, change: number): number {
    const rows = (this.#counts.get(share) ?? 0) + change
    if (rows === 0) this.#counts.delete(share)
    else this.#counts.set(share, rows)
    return rows
  }
}
