/**
 * Reads an index database in PostgreSQL, which may be a replica of the one that is written. A snapshot is a transaction
 * that reads one state; the server ends it when its time is over.
 */
import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import { ReadPlaces, timedOut } from '../read-places.ts'
import { readGeneration } from '../generations.ts'
import { IndexNotReadyError, type IndexReader, type SnapshotOptions } from '../reader.ts'
import { requireSchema } from '../required-schema.ts'
import type { IndexView } from '../select/selection.ts'
import { type SelectEntries, viewOf } from '../select/view.ts'
import { type WindowBounds, windowFirst } from '../select/window.ts'
import type { Session } from '../session.ts'
import { IndexStorageError } from '../storage-error.ts'
import { clientOptions } from './client-options.ts'
import { compiled, postgresDialect } from './dialect.ts'
import { selectAtOnce } from './entries.ts'
import { generationPolicy, schemaOf } from './schema-of.ts'
import { onPostgres } from './storage-fault.ts'

/** Snapshots that are read at the same time, each on a connection of its own. */
const connectionsMax = 8
/** A server that is there ends a statement in time. One that says nothing is waited for so much longer. */
const silentMs = 1000
const schemaQuery = sql<{ name: string }>`select "name" from "kysely_migration" order by "name" collate "C"`
const generationQuery = sql<{
  value: string
}>`select "value" from "policies" where "name" = ${generationPolicy}`
const undefinedTable = '42P01'
const queryCanceled = '57014'

export class PostgresReader implements IndexReader {
  readonly #pool: pg.Pool
  readonly #places = new ReadPlaces(connectionsMax)
  readonly #select: SelectEntries

  constructor(url: string, window: WindowBounds) {
    this.#select = windowFirst(selectAtOnce, window)
    // One connection more than snapshots, to cancel one.
    this.#pool = new pg.Pool({ ...clientOptions(url, 'tributary feed'), max: connectionsMax + 1 })
    // An idle connection that is lost is replaced. Who uses a connection that is lost is told by the statement.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  async snapshot<T>(
    { timeoutMs, signal, cause }: SnapshotOptions,
    read: (view: IndexView) => Promise<T>,
  ): Promise<T> {
    const deadline = performance.now() + timeoutMs
    await this.#places.enter(deadline, signal, cause)
    try {
      const client = await this.#connect(deadline)
      const stopCancelling = this.#cancelOnAbort(client, signal)
      let isUsable = false
      try {
        await ask(client, 'begin isolation level repeatable read read only', deadline)
        const session = sessionOf(client, deadline, signal)
        await enterGeneration(session)
        requireSchema(await appliedMigrations(session))
        const result = await read(viewOf(session, this.#select))
        await ask(client, 'rollback', deadline)
        // What is being cancelled must not be a later statement.
        isUsable = signal?.aborted !== true
        return result
      } finally {
        stopCancelling()
        client.release(!isUsable)
      }
    } finally {
      this.#places.leave(cause)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.end()
  }

  /** A connection that comes too late is kept for others. */
  async #connect(deadline: number): Promise<pg.PoolClient> {
    const connecting = this.#pool.connect()
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => late.reject(timedOut()), Math.max(0, deadline - performance.now()))
    try {
      return await Promise.race([onPostgres(connecting), late.promise])
    } catch (error) {
      connecting.then(
        (client) => client.release(),
        () => undefined,
      )
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** Ends the statement that runs when the signal aborts, until the result is called. */
  #cancelOnAbort(client: pg.PoolClient, signal: AbortSignal | undefined): () => void {
    const { processID } = client as unknown as { processID: number } // pg has it, its types do not
    const onAbort = (): void => {
      const cancel = { text: 'select pg_cancel_backend($1)', values: [processID] }
      this.#pool.query(within(silentMs, cancel)).catch(() => undefined)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    return () => signal?.removeEventListener('abort', onAbort)
  }
}

/** Waits for an answer, and not much longer than to the deadline. */
async function ask(
  client: pg.PoolClient,
  statement: string | { text: string; values: unknown[] },
  deadline: number,
): Promise<unknown[]> {
  const leftMs = Math.max(0, Math.ceil(deadline - performance.now()))
  const query = typeof statement === 'string' ? { text: statement } : statement
  try {
    const { rows } = await onPostgres(client.query(within(leftMs + silentMs, query)))
    return rows
  } catch (error) {
    if (performance.now() >= deadline && !isOfServer(error)) throw timedOut()
    throw error
  }
}

function sessionOf(client: pg.PoolClient, deadline: number, signal: AbortSignal | undefined): Session {
  return {
    dialect: postgresDialect,
    all: async <Row>(statement: RawBuilder<Row>) => {
      signal?.throwIfAborted()
      const leftMs = Math.ceil(deadline - performance.now())
      if (leftMs <= 0) throw timedOut()
      try {
        await ask(client, `set local statement_timeout = ${leftMs}`, deadline)
        return (await ask(client, compiled(statement), deadline)) as Row[] // the statement's own type
      } catch (error) {
        signal?.throwIfAborted()
        if (error instanceof IndexStorageError && codeOf(error.cause) === queryCanceled) throw timedOut()
        throw error
      }
    },
  }
}

/** From here on the transaction reads the present generation. */
async function enterGeneration(session: Session): Promise<void> {
  const [row] = await whenMade(session.all(generationQuery))
  const schema = schemaOf((row && readGeneration(row.value)) ?? 1)
  if (schema !== undefined) await session.all(sql`set local search_path to ${sql.id(schema)}`)
}

async function appliedMigrations(session: Session): Promise<string[]> {
  const rows = await whenMade(session.all(schemaQuery))
  return rows.map(({ name }) => name)
}

/** @throws IndexNotReadyError when the index has not made its tables yet. */
async function whenMade<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (!(error instanceof IndexStorageError) || codeOf(error.cause) !== undefinedTable) throw error
    throw new IndexNotReadyError('the database has no index yet', { cause: error })
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}

/** A query that fails when it has no answer by then. */
function within(ms: number, query: pg.QueryConfig): pg.QueryConfig {
  return { ...query, query_timeout: ms } as pg.QueryConfig // pg knows the field, its types do not
}

function isOfServer(error: unknown): boolean {
  return error instanceof IndexStorageError && error.cause instanceof pg.DatabaseError
}
