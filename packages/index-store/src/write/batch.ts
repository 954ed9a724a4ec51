/**
 * One transaction of the index. Rows are loaded by sets of keys, changed in memory, and put or removed in sets, so that a
 * database behind a socket costs by the sets and not by the rows. Whatever touches more rows than fit into a set goes in
 * steps.
 */
import { type RawBuilder, sql } from 'kysely'
import type { WriteSession } from '../session.ts'
import { columnsOf, type RowOf, type TableName, tables } from '../tables.ts'
import { AccountRows } from './account-rows.ts'
import { Classification } from './classification.ts'
import { removeItemsOf, removeListed } from './collection-items.ts'
import { Queues } from './queues.ts'

/** Keys of one statement. */
const keysPerStep = 500

const rowsPerPage = 500

/** Tables that are read whole although they may be large. */
export type PagedTable = 'accounts' | 'cursors' | 'handles' | 'labels' | 'superseded'

/** What orders the rows of a table: its key, and of labels what tells them apart. */
const orders: Readonly<Record<PagedTable, readonly RawBuilder<unknown>[]>> = {
  accounts: [sql`"did"`],
  cursors: [sql`"source"`],
  handles: [sql`"did"`],
  labels: [
    ...['did', 'src', 'val', 'cts', 'neg', 'uri'].map((column) => sql`${sql.ref(column)}`),
    sql`coalesce("cid", '')`,
    sql`coalesce("exp", -1)`,
  ],
  superseded: [sql`"uri"`],
}

/** Where a row stands in the order of its table. */
function placeOf(table: PagedTable, row: object): unknown[] {
  const value = (column: string): unknown => Reflect.get(row, column)
  if (table !== 'labels') return [value(String(tables[table].key[0]))]
  const { did, src, val, cts, neg, uri, cid, exp } = row as RowOf<'labels'> // a row of that table
  return [did, src, val, cts, neg, uri, cid ?? '', exp ?? -1n]
}

export class Batch {
  /** All rows of one account. */
  readonly accounts: AccountRows
  /** What entries, endorsements and projects rest on. */
  readonly classes: Classification
  /** What waits for its time. */
  readonly queues: Queues
  readonly #session: WriteSession
  readonly #split: (between?: () => Promise<void>) => Promise<void>
  #rows = 0

  /** @param split commits, lets others have their transactions, and begins again */
  constructor(session: WriteSession, split: (between?: () => Promise<void>) => Promise<void>) {
    this.#split = split
    this.#session = counted(session, (rows) => (this.#rows += rows))
    this.accounts = new AccountRows(this.#session)
    this.classes = new Classification(this.#session)
    this.queues = new Queues(this.#session)
  }

  /** Rows that statements of this transaction have read, put or removed so far. A kilobyte of text counts as one more. */
  get rows(): number {
    return this.#rows
  }

  /** The rows with these values in the first column of their key, in no order. */
  async load<T extends TableName, C extends keyof RowOf<T> & string = keyof RowOf<T> & string>(
    table: T,
    keys: readonly string[],
    columns?: readonly C[],
  ): Promise<Pick<RowOf<T>, C>[]> {
    const names: readonly string[] = columns ?? columnsOf(table).map(([name]) => name)
    const wanted = sql.join(names.map((name) => sql.ref(name)))
    const key = sql.ref(String(tables[table].key[0]))
    const rows: Pick<RowOf<T>, C>[] = []
    for (let at = 0; at < keys.length; at += keysPerStep) {
      const some = this.#session.dialect.listed(keys.slice(at, at + keysPerStep))
      rows.push(
        ...(await this.#session.all(
          sql<Pick<RowOf<T>, C>>`select ${wanted} from ${sql.table(table)} where ${key} in ${some}`,
        )),
      )
    }
    return rows
  }

  /** Every row of a table that is known to be small. */
  loadAll<T extends TableName>(table: T): Promise<RowOf<T>[]> {
    return this.#session.all(sql<RowOf<T>>`select * from ${sql.table(table)}`)
  }

  /** Every row of a table in the order of its key, in pages. */
  async *pages<T extends PagedTable>(table: T): AsyncGenerator<RowOf<T>[]> {
    for (let last: RowOf<T> | undefined; ;) {
      const page: RowOf<T>[] = await this.page(table, last)
      if (page.length > 0) yield page
      last = page.at(-1)
      if (page.length < rowsPerPage) return
    }
  }

  /** The first rows of a table in the order of its key, or the next ones after a row; none at the end. */
  page<T extends PagedTable>(table: T, last?: RowOf<T>): Promise<RowOf<T>[]> {
    const key = sql.join(orders[table])
    const after = last === undefined ? sql`` : sql`where (${key}) > (${sql.join(placeOf(table, last))})`
    return this.#session.all(
      sql<RowOf<T>>`select * from ${sql.table(table)} ${after} order by ${key} limit ${rowsPerPage}`,
    )
  }

  /** Adds rows, or changes those with the same key. */
  async put<T extends TableName>(table: T, rows: readonly RowOf<T>[]): Promise<void> {
    if (rows.length > 0) await this.#session.put(table, rows)
  }

  /** Removes rows by the first column of their key. */
  async remove(table: TableName, keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await this.#session.remove(table, keys)
  }

  /** Removes the items of collection records, and gives the activities that were listed, in pages. */
  removeItems(collectionUris: readonly string[]): AsyncGenerator<string[]> {
    return removeItemsOf(this.#session, collectionUris)
  }

  /** Removes some items of one collection record. */
  removeListed(collectionUri: string, items: readonly RowOf<'collectionItems'>[]): Promise<void> {
    return removeListed(this.#session, collectionUri, items)
  }

  /** Removes every row of a table that is known to be small. */
  async clear(table: TableName): Promise<void> {
    await this.#session.all(sql`delete from ${sql.table(table)}`)
  }

  /** Removes all remembered events but the newest. */
  async keepNewestEvents(count: number): Promise<void> {
    await this.#session.all(sql`delete from "foldedEvents" where "seq" <=
      (select "seq" from "foldedEvents" order by "seq" desc limit 1 offset ${count})`)
  }

  /**
   * Ends the transaction, lets others have theirs, and goes on in another one. What was done so far is there whatever
   * happens next. Not within `savepoint`.
   * @param between what is waited for before the other transaction begins. It must not throw: no transaction is there to take back.
   */
  split(between?: () => Promise<void>): Promise<void> {
    return this.#split(between)
  }

  /** Work that is taken back by itself when it throws. */
  savepoint<T>(work: () => Promise<T>): Promise<T> {
    return this.#session.savepoint(work)
  }

  /** True when others should have their turn of the event loop. */
  isTurnOver(): boolean {
    return this.#session.isTurnOver()
  }

  turn(): Promise<void> {
    return this.#session.turn()
  }
}

/** Characters of a record, or of what is shown of it, that take as long as a row. */
const charsPerRow = 1000

/** What rows weigh: those with a long text take longer. */
function weightOf(rows: readonly object[]): number {
  let chars = 0
  for (const row of rows) {
    const { json, view } = row as { json?: unknown; view?: unknown } // columns of some tables
    if (typeof json === 'string') chars += json.length
    if (typeof view === 'string') chars += view.length
  }
  return rows.length + Math.floor(chars / charsPerRow)
}

/** A session that tells how many rows its statements are about. */
function counted(session: WriteSession, add: (rows: number) => void): WriteSession {
  return {
    ...session,
    weigh: add,
    async all<Row>(statement: RawBuilder<Row>) {
      const rows = await session.all(statement)
      add(weightOf(rows as object[])) // a row is an object
      return rows
    },
    async put(table, rows) {
      await session.put(table, rows)
      add(weightOf(rows))
    },
    async remove(table, keys) {
      await session.remove(table, keys)
      add(keys.length)
    },
  }
}
