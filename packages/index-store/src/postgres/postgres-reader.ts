/**
 * Reads an index database in PostgreSQL, which may be a replica of the one that is written. A snapshot is a transaction
 * that reads one state; the server ends it when its time is over.
 */
import type { RawBuilder } from 'kysely'
import pg from 'pg'
import { placesMax, ReadPlaces, timedOut } from '../read-places.ts'
import { readGeneration } from '../generations.ts'
import { IndexNotReadyError, type IndexReader, type SnapshotOptions } from '../reader.ts'
import { requireSchema } from '../required-schema.ts'
import type { IndexView } from '../select/selection.ts'
import { type SelectEntries, viewOf } from '../select/view.ts'
import { type WindowBounds, windowFirst, windowSteps } from '../select/window.ts'
import type { Session } from '../session.ts'
import { IndexStorageError } from '../storage-error.ts'
import { clientOptions } from './client-options.ts'
import { compiled, nameOf, postgresDialect } from './dialect.ts'
import { selectAtOnce } from './entries.ts'
import { planSettings } from './plan-settings.ts'
import { generationPolicy, schemaOf } from './schema-of.ts'
import { onPostgres } from './storage-fault.ts'

/** To select the entries of one account takes as long as four look-ups of a window. */
export const windowOfPostgres: WindowBounds = { ...windowSteps, accountsMin: 100, lookUpsPerAccount: 4 }
/** A server that is there ends a statement in time. One that says nothing is waited for so much longer. */
const silentMs = 1000
/** How late the server may end a statement. It is told of the deadline again when it has come so much closer. */
const lateMsMax = 50
/** A connection is replaced after so long: a plan that was made when the tables were empty is not the best one later. */
const connectionSecondsMax = 600
const beginQuery = 'begin isolation level repeatable read read only'
/** What a feed whose machine is gone was reading is over after a minute, or its old rows would stay. No setting allows longer. */
const goneQuery = 'set local idle_in_transaction_session_timeout = 60000'
const generationQuery = `select "value" from "policies" where "name" = '${generationPolicy}'`
const schemaQuery = 'select "name" from "kysely_migration" order by "name" collate "C"'
const undefinedTable = '42P01'
const queryCanceled = '57014'
/** A pooler has given this transaction another session, which does not know the statement, or knew it before. */
const otherSession: readonly unknown[] = ['26000', '42P05']

/** How long a snapshot may take, in the time of `performance.now`, and who ends it before that. */
interface Bounds {
  deadline: number
  signal?: AbortSignal | undefined
}

export class PostgresReader implements IndexReader {
  readonly #pool: pg.Pool
  readonly #places = new ReadPlaces(placesMax)
  readonly #select: SelectEntries
  /** The generation that was read last. */
  #generation: number | undefined
  /** Sessions keep the plans of statements, unless a pooler gives each transaction another session. */
  #prepares = true

  constructor(url: string, window: WindowBounds = windowOfPostgres) {
    this.#select = windowFirst(selectAtOnce, window)
    // One connection more than snapshots, to cancel one.
    this.#pool = new pg.Pool({
      ...clientOptions(url, 'tributary feed'),
      max: placesMax + 1,
      maxLifetimeSeconds: connectionSecondsMax,
    })
    // An idle connection that is lost is replaced. Who uses a connection that is lost is told by the statement.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  async snapshot<T>(
    { timeoutMs, signal, cause }: SnapshotOptions,
    read: (view: IndexView) => Promise<T>,
  ): Promise<T> {
    const deadline = performance.now() + timeoutMs
    const bounds = { deadline, signal }
    await this.#places.enter(deadline, signal, cause)
    let ended: Promise<void> | undefined
    const prepares = this.#prepares
    const attempt = async (): Promise<T> => {
      const client = await this.#connect(deadline)
      const stopCancelling = this.#cancelOnAbort(client, signal)
      let isUsable = false
      try {
        const toldMs = await this.#begin(client, bounds)
        const session = sessionOf(client, bounds, { toldMs, prepares: this.#prepares })
        const result = await read(viewOf(session, this.#select))
        // What is being cancelled must not be a later statement.
        isUsable = signal?.aborted !== true
        return result
      } finally {
        stopCancelling()
        if (isUsable) ended = end(client, { deadline })
        else client.release(true)
      }
    }
    try {
      return await attempt()
    } catch (error) {
      if (!prepares || !(error instanceof IndexStorageError) || !otherSession.includes(codeOf(error.cause)))
        throw error
      this.#prepares = false
      return await attempt()
    } finally {
      // The caller has what was read meanwhile.
      void Promise.resolve(ended).then(() => this.#places.leave(cause))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.end()
  }

  /**
   * Begins a transaction that reads the present generation. As a rule that is the one that was read last: then one request
   * is enough.
   * @returns how many milliseconds each statement may take, as the server was told.
   * @throws IndexNotReadyError
   */
  async #begin(client: pg.PoolClient, bounds: Bounds): Promise<number> {
    for (let expected = this.#generation; ; expected = undefined) {
      const leftMs = msTo(bounds.deadline)
      const begin = [beginQuery, ...planSettings, goneQuery, timeoutQuery(leftMs), generationQuery]
      try {
        const entered = expected === undefined ? [] : entering(expected)
        const [policies = [], names] = await askAll(client, [...begin, ...entered], bounds)
        const generation = readGeneration(String(policies[0]?.['value'])) ?? 1
        if (expected === undefined || expected === generation) {
          const [found = []] = names ? [names] : await askAll(client, entering(generation), bounds)
          requireSchema(found.map(({ name }) => String(name)))
          this.#generation = generation
          return leftMs
        }
      } catch (error) {
        if (!(error instanceof IndexStorageError) || codeOf(error.cause) !== undefinedTable) throw error
        // The tables of a generation that is over may be gone.
        if (expected === undefined)
          throw new IndexNotReadyError('the database has no index yet', { cause: error })
      }
      await ask(client, { text: 'rollback' }, bounds)
    }
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
  query: pg.QueryConfig,
  { deadline, signal }: Bounds,
): Promise<pg.QueryResult> {
  try {
    return await onPostgres(client.query(within(msTo(deadline) + silentMs, query)))
  } catch (error) {
    signal?.throwIfAborted()
    const isEnded = error instanceof IndexStorageError && codeOf(error.cause) === queryCanceled
    if (isEnded || (performance.now() >= deadline && !isOfServer(error))) throw timedOut()
    throw error
  }
}

/** Asks for several statements at once. Returns the rows of those that select. */
async function askAll(
  client: pg.PoolClient,
  statements: readonly string[],
  bounds: Bounds,
): Promise<Record<string, unknown>[][]> {
  // There are as many results as statements, which the types of pg do not say.
  const results = [(await ask(client, { text: statements.join(';') }, bounds)) as unknown as pg.QueryResult[]]
  return results
    .flat()
    .filter(({ command }) => command === 'SELECT')
    .map(({ rows }) => rows as Record<string, unknown>[]) // columns by their names
}

/** Gives a connection back when its transaction is over. One that fails is not used again. */
async function end(client: pg.PoolClient, bounds: Bounds): Promise<void> {
  try {
    await ask(client, { text: 'rollback' }, bounds)
    client.release()
  } catch {
    client.release(true)
  }
}

function sessionOf(
  client: pg.PoolClient,
  bounds: Bounds,
  { toldMs, prepares }: { toldMs: number; prepares: boolean },
): Session {
  let told = toldMs
  return {
    dialect: postgresDialect,
    all: async <Row>(statement: RawBuilder<Row>) => {
      bounds.signal?.throwIfAborted()
      const leftMs = msTo(bounds.deadline)
      if (leftMs === 0) throw timedOut()
      if (told - leftMs > lateMsMax) {
        await ask(client, { text: timeoutQuery(leftMs) }, bounds)
        told = leftMs
      }
      const query = compiled(statement)
      const prepared = prepares ? { ...query, name: nameOf(query.text) } : query
      return (await ask(client, prepared, bounds)).rows as Row[] // the statement's own type
    },
  }
}

function msTo(deadline: number): number {
  return Math.max(0, Math.ceil(deadline - performance.now()))
}

function timeoutQuery(ms: number): string {
  // 0 would be without a limit.
  return `set local statement_timeout = ${Math.max(1, ms)}`
}

/** From here on the transaction reads this generation, whose migrations are selected. */
function entering(generation: number): string[] {
  const schema = schemaOf(generation)
  return [...(schema === undefined ? [] : [`set local search_path to "${schema}"`]), schemaQuery]
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
