/**
 * An SQLite database of events that a backfill can be continued into. Events and the cursor after them are committed
 * together, so that every event is in the table once, however a run ends.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { ClientEvent, StreamError } from '@tributary/client/node'
import { rowsOf } from './event-columns.ts'
import { type OutputFile, OutputFileError } from './output-file.ts'

/** Rows of one transaction: a run that is killed repeats no more than these. */
const transactionRows = 20_000
const lockTimeoutMs = 5000
/** `TRIB`, so that a database of something else is left alone. */
const applicationId = 0x54524942

/** Result codes of SQLite that an operator can do something about. */
const advice: Partial<Record<number, string>> = {
  5: 'another program writes to it; end that first',
  8: 'this user may not write to it',
  11: 'it is damaged; remove it to start again',
  13: 'the disk is full: make room and run it again',
  14: 'the file cannot be opened or made',
  26: 'it exists and is no backfill that can be continued; name another file',
}

const tables = `
  create table events (
    seq integer primary key,
    time text not null,
    kind text not null,
    did text not null,
    operation text,
    collection text,
    rkey text,
    rev text,
    cid text,
    record text,
    body text
  ) strict;
  create index events_of_record on events (did, collection, rkey) where kind = 'commit';
  create table backfill (only_row integer primary key check (only_row = 1), selection text not null, cursor integer not null) strict;
  pragma application_id = ${applicationId};`

export class SqliteFile implements OutputFile {
  readonly #path: string
  readonly #database: DatabaseSync
  readonly #insert: StatementSync
  readonly #move: StatementSync
  #cursor: number
  #pending = 0

  private constructor(path: string, database: DatabaseSync, cursor: number) {
    this.#path = path
    this.#database = database
    this.#cursor = cursor
    // A seq that is read twice, after a connection that ended, is the same event.
    this.#insert = database.prepare(
      `insert into events (seq, time, kind, did, operation, collection, rkey, rev, cid, record, body)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (seq) do nothing`,
    )
    this.#move = database.prepare('update backfill set cursor = max(cursor, ?)')
  }

  /**
   * Creates the database, or opens it where the last run left it.
   * @param connect opens it. Default: so that another program's transaction is waited for.
   * @throws OutputFileError
   */
  static open(
    path: string,
    selection: string,
    connect: (path: string) => DatabaseSync = connectPatiently,
  ): SqliteFile {
    return speaking(path, () => {
      const database = connect(path)
      try {
        return new SqliteFile(path, database, prepare(path, database, selection))
      } catch (error) {
        database.close()
        throw error
      }
    })
  }

  get cursor(): number {
    return this.#cursor
  }

  async append(events: readonly ClientEvent[], cursor: number): Promise<readonly StreamError[]> {
    const { rows, malformed } = rowsOf(events)
    speaking(this.#path, () => {
      if (!this.#database.isTransaction) this.#database.exec('begin immediate')
      for (const row of rows) {
        const { seq, time, kind, did, operation, collection, rkey, rev, cid, record, body } = row
        this.#insert.run(seq, time, kind, did, operation, collection, rkey, rev, cid, record, body)
      }
      this.#move.run(cursor)
      this.#cursor = cursor
      this.#pending += rows.length
      if (this.#pending >= transactionRows) this.#commit()
    })
    return malformed
  }

  async sync(): Promise<void> {
    speaking(this.#path, () => this.#commit())
  }

  /** What was not synced is undone. One file is left, which can be copied alone, unless somebody reads it right now. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback')
      this.#database.exec('pragma busy_timeout = 0; pragma journal_mode = delete')
    } catch (error) {
      // Everything that was synced is safe in the files as they are.
      if (!(error instanceof Error) || !('errcode' in error)) throw error
    } finally {
      this.#database.close()
    }
  }

  #commit(): void {
    if (this.#database.isTransaction) this.#database.exec('commit')
    this.#pending = 0
  }
}

function connectPatiently(path: string): DatabaseSync {
  return new DatabaseSync(path, { timeout: lockTimeoutMs })
}

/** Makes the tables, or checks that they are of the same selection. Returns the cursor. */
function prepare(path: string, database: DatabaseSync, selection: string): number {
  database.exec('begin immediate')
  const isNew = database.prepare('select 1 from sqlite_schema').get() === undefined
  if (isNew) {
    database.exec(tables)
    database.prepare('insert into backfill values (1, ?, 0)').run(selection)
  }
  const id = database.prepare('pragma application_id').get()?.['application_id']
  if (id !== applicationId) {
    throw new OutputFileError(`${path} exists and is no backfill that can be continued; name another file`)
  }
  // As text, because a number may be too large to be one here.
  const row = database.prepare('select selection, cast(cursor as text) as cursor from backfill').get()
  if (row?.['selection'] !== selection) {
    throw new OutputFileError(`${path} was made from another server or with other filters; name another file`)
  }
  const cursor = Number(row['cursor'] ?? Number.NaN)
  if (!Number.isSafeInteger(cursor) || cursor < 0)
    throw new OutputFileError(`${path} does not say where it ends; remove it to start again`)
  // Readers may look at the events while a run goes on.
  database.exec('commit; pragma journal_mode = wal')
  return cursor
}

/** Does something with the database at `path`, whose errors become sentences. */
function speaking<Result>(path: string, work: () => Result): Result {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof Error) || !('errcode' in error)) throw error
    // The lower byte is the kind of the error.
    const words = advice[Number(error.errcode) & 0xff] ?? error.message
    throw new OutputFileError(`${path}: ${words}`, { cause: error })
  }
}
