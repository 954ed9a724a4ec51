/**
 * Writes an index database in PostgreSQL: one connection, which holds a lock for as long as it lasts, so that there is one
 * writer. When the connection is lost the lock is, and every later call fails: the process must start again.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Kysely, PostgresDialect, type RawBuilder } from 'kysely'
import { Migrator } from 'kysely/migration'
import pg from 'pg'
import { migrationFault, migrationsOf } from '../migrations.ts'
import type { WriteSession } from '../session.ts'
import { IndexStorageError } from '../storage-error.ts'
import { columnsOf, type RowOf, type TableName, tables } from '../tables.ts'
import type { Batch } from '../write/batch.ts'
import { onConflict, quoted } from '../write/on-conflict.ts'
import { Transactions } from '../write/transactions.ts'
import type { IndexWriter } from '../writer.ts'
import { clientOptions } from './client-options.ts'
import { compiled, nameOf, postgresDialect } from './dialect.ts'
import { findHome, type HomeSchema } from './home-schema.ts'
import { noticeLoss } from './lost-clients.ts'
import { planSettings } from './plan-settings.ts'
import { schemaOf } from './schema-of.ts'
import { onPostgres } from './storage-fault.ts'

/** Names the locks of writers among the advisory locks of a database: the letters `trib`, and `indx` for the first generation. */
const writerLock = [0x74726962, 0x696e6478] as const
/** Names the locks that say where the index is at home which writes: the letters `trih`, with the number of that schema. */
const homeLock = 0x74726968
/** Rows of one statement. */
const rowsPerStep = 500
/** A page of the rows of an account is the beginning of a range of an index, and not of all the range after it is sorted. */
const inOrderOfIndex = 'set local enable_bitmapscan = off'
/** A server that gives no answer for so long is away: statements are about few rows each. */
const answerMsDefault = 60_000

export class PostgresWriter implements IndexWriter {
  readonly #client: pg.Client
  readonly #transactions: Transactions

  private constructor(client: pg.Client, pid: number, turnMs: number) {
    this.#client = client
    const session = new PostgresWriteSession(client, turnMs)
    const run = async (statement: string): Promise<void> => void (await onPostgres(client.query(statement)))
    this.#transactions = new Transactions(session, {
      async begin() {
        await beginIn(client, pid)
        session.beginTurn()
      },
      commit: () => run('commit'),
      // A connection that is lost takes its transaction back by itself.
      rollback: () => run('rollback').catch(() => undefined),
    })
  }

  /**
   * Connects, takes the lock of the generation, and brings it to the present schema.
   * @param answerMs time for each statement
   */
  static async open(
    url: string,
    turnMs: number,
    generation: number,
    answerMs: number = answerMsDefault,
  ): Promise<PostgresWriter> {
    const schema = schemaOf(generation)
    const home = await findHome(url)
    const options = clientOptions(url, 'tributary index', schema)
    const client = new pg.Client({ ...options, query_timeout: answerMs })
    // A connection that is lost between two calls is noticed by the next one.
    client.on('error', () => undefined)
    try {
      await onPostgres(client.connect())
      await noticeLoss(client)
      const { rows } = await onPostgres(
        client.query<{ isMine: boolean; pid: number }>(
          'select pg_try_advisory_lock($1, $2) as "isMine", pg_backend_pid() as "pid"',
          [writerLock[0], writerLock[1] + generation - 1],
        ),
      )
      const [lock] = rows
      if (lock?.isMine !== true || (await isOfAnother(client, home)))
        throw new IndexStorageError('another index writes this database; stop it first')
      await requireSession(url, client, lock.pid)
      if (schema !== undefined) await makeSchema(client, schema)
      await migrate(url, schema, home)
      if (schema !== undefined) await letRead(client, schema, home)
      return new PostgresWriter(client, lock.pid, turnMs)
    } catch (error) {
      await client.end()
      throw error
    }
  }

  write<T>(work: (batch: Batch) => Promise<T>): Promise<T> {
    return this.#transactions.run(work)
  }

  async makeDurable(): Promise<void> {
    // A commit is durable when it returns.
    await this.#transactions.ended()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transactions.ended()
    await this.#client.end()
  }
}

class PostgresWriteSession implements WriteSession {
  readonly dialect = postgresDialect
  readonly #client: pg.Client
  readonly #turnMs: number
  #turnEndsAt = 0

  constructor(client: pg.Client, turnMs: number) {
    this.#client = client
    this.#turnMs = turnMs
  }

  beginTurn(): void {
    this.#turnEndsAt = performance.now() + this.#turnMs
  }

  readonly isTurnOver = (): boolean => performance.now() >= this.#turnEndsAt

  readonly turn = async (): Promise<void> => {
    await nextTurn()
    this.beginTurn()
  }

  readonly all = async <Row>(statement: RawBuilder<Row>): Promise<Row[]> => {
    const { text, values } = compiled(statement)
    return (await this.#run(text, values)) as Row[] // the statement's own type
  }

  readonly put = async <T extends TableName>(table: T, rows: readonly RowOf<T>[]): Promise<void> => {
    const columns = columnsOf(table)
    const lists = columns.map(([, type], at) => `$${at + 1}::${type}[]`).join(', ')
    const names = quoted(columns.map(([name]) => name))
    const text = `insert into "${table}" (${names}) select * from unnest(${lists}) ${onConflict(table)}`
    for (let at = 0; at < rows.length; at += rowsPerStep) {
      const some = rows.slice(at, at + rowsPerStep)
      const values = columns.map(([name]) => some.map((row) => Reflect.get(row, name) as unknown))
      await this.#run(text, values)
    }
  }

  readonly remove = async (table: TableName, keys: readonly string[]): Promise<void> => {
    const text = `delete from "${table}" where "${String(tables[table].key[0])}" = any($1::text[])`
    for (let at = 0; at < keys.length; at += rowsPerStep)
      await this.#run(text, [keys.slice(at, at + rowsPerStep)])
  }

  readonly savepoint = async <T>(work: () => Promise<T>): Promise<T> => {
    await onPostgres(this.#client.query('savepoint apart'))
    let result: T
    try {
      result = await work()
    } catch (error) {
      await onPostgres(this.#client.query('rollback to apart; release apart'))
      throw error
    }
    await onPostgres(this.#client.query('release apart'))
    return result
  }

  /** Runs a statement that the session knows after the first time. */
  async #run(text: string, values: unknown[]): Promise<unknown[]> {
    const { rows } = await onPostgres(this.#client.query({ name: nameOf(text), text, values }))
    this.beginTurn() // others had theirs while PostgreSQL worked
    return rows
  }
}

/**
 * Sees to it that no pooler gives another session to each transaction: the lock would stay with a session that others are
 * given, too. If one does, a second connection takes the session that has the lock now.
 */
async function requireSession(url: string, client: pg.Client, pid: number): Promise<void> {
  const other = new pg.Client(clientOptions(url, 'tributary index'))
  other.on('error', () => undefined)
  try {
    await onPostgres(other.connect())
    await onPostgres(other.query('begin'))
    await beginIn(client, pid)
    await onPostgres(client.query('commit'))
  } finally {
    await other.end()
  }
}

/** Begins a transaction in the session that has the lock. Its statements keep their plans. */
async function beginIn(client: pg.Client, pid: number): Promise<void> {
  const statements = ['begin', ...planSettings, inOrderOfIndex, 'select pg_backend_pid() as "pid"']
  const answers: unknown = await onPostgres(client.query(statements.join(';')))
  const answer = (answers as pg.QueryResult<{ pid: number }>[]).at(-1) // pg answers each statement with a result
  if (answer?.rows[0]?.pid === pid) return
  throw new IndexStorageError(
    'a pooler gives each transaction another session of the database, so an index cannot lock it: ' +
      'let the URL name the server itself, or a pool that keeps sessions',
  )
}

/** Whether an index that is at home in another schema writes here. The schemas of generations would be those of both. */
async function isOfAnother(client: pg.Client, { id }: HomeSchema): Promise<boolean> {
  await onPostgres(client.query('select pg_advisory_lock_shared($1, $2)', [homeLock, id]))
  const { rows } = await onPostgres(
    client.query(
      `select 1 from pg_locks where locktype = 'advisory' and objsubid = 2 and classid = $1 and objid <> $2
        and database = (select oid from pg_database where datname = current_database()) limit 1`,
      [homeLock, id],
    ),
  )
  return rows.length > 0
}

/** Makes the schema of a generation, and sees to it that its tables will be there and nowhere else. */
async function makeSchema(client: pg.Client, schema: string): Promise<void> {
  await onPostgres(client.query(`create schema if not exists "${schema}"`))
  const { rows } = await onPostgres(client.query<{ name: string }>('select current_schema() as "name"'))
  if (rows[0]?.name !== schema)
    throw new IndexStorageError('the connection to the database takes no search path, which a rebuild needs')
}

/** Feeds may read as a role of their own, which may read the schema where the index is at home, and no other. */
async function letRead(client: pg.Client, schema: string, { readers }: HomeSchema): Promise<void> {
  for (const role of readers) {
    await onPostgres(client.query(`grant usage on schema "${schema}" to ${role}`))
    await onPostgres(client.query(`grant select on all tables in schema "${schema}" to ${role}`))
  }
}

async function migrate(url: string, schema: string | undefined, home: HomeSchema): Promise<void> {
  const pool = new pg.Pool({ ...clientOptions(url, 'tributary index migration', schema), max: 2 })
  await using db = new Kysely({ dialect: new PostgresDialect({ pool }) })
  const provider = { getMigrations: async () => migrationsOf('postgres') }
  const migrator = new Migrator({
    db,
    provider,
    // Otherwise the table of another program, in another schema, would be taken for ours.
    migrationTableSchema: schema ?? home.name,
  })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) throw migrationFault('the index database', error)
}
