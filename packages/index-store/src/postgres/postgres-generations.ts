/**
 * Generations of an index in PostgreSQL. The table `policies` of the first one stays when the first one goes: a row of it
 * names the generation that is read, and another one the generation that is asked for.
 */
import pg from 'pg'
import {
  type GenerationProgress,
  type Generations,
  GenerationsLeftError,
  readGeneration,
  requireCurrent,
} from '../generations.ts'
import { IndexStorageError } from '../storage-error.ts'
import { tables } from '../tables.ts'
import { clientOptions } from './client-options.ts'
import { generationPolicy, rebuildPolicy, schemaOf } from './schema-of.ts'
import { onPostgres } from './storage-fault.ts'

const undefinedTable = '42P01'
/** How long the removal of a generation waits for whoever reads it. */
const removalWaitMs = 5000
/**
 * The schema of the first generation, as SQL names it, when that generation is there. Only there are its tables ours: other
 * schemas of the search path may have tables of the same names.
 */
const firstQuery = `select quote_ident(home.nspname) as "schema" from pg_namespace as home
  where home.oid = (select relnamespace from pg_class where oid = to_regclass('"policies"'))
    and exists (select 1 from pg_class where relnamespace = home.oid and relname = 'records')`

export class PostgresGenerations implements Generations {
  readonly #pool: pg.Pool

  constructor(url: string) {
    this.#pool = new pg.Pool({ ...clientOptions(url, 'tributary index generations'), max: 1 })
    // An idle connection that is lost is replaced.
    this.#pool.on('error', () => undefined)
  }

  async current(): Promise<number> {
    return (await this.#policy(generationPolicy)) ?? 1
  }

  async isRebuildAsked(): Promise<boolean> {
    return ((await this.#policy(rebuildPolicy)) ?? 0) > (await this.current())
  }

  async askForRebuild(): Promise<void> {
    await this.#setPolicy(rebuildPolicy, (await this.current()) + 1)
  }

  async switchTo(generation: number): Promise<void> {
    await this.#setPolicy(generationPolicy, generation)
  }

  async keepOnly(generations: readonly number[]): Promise<GenerationsLeftError | undefined> {
    requireCurrent(await this.current(), generations)
    const others = (await this.#generations()).filter((each) => !generations.includes(each))
    const faults = new Map<number, Error>()
    for (const generation of others) {
      try {
        await this.#remove(generation)
      } catch (error) {
        const cause = error instanceof IndexStorageError ? error.cause : error
        // Without a word of the server it is away.
        if (!(cause instanceof pg.DatabaseError)) throw error
        faults.set(generation, cause)
      }
    }
    return GenerationsLeftError.of(faults)
  }

  async progress(): Promise<GenerationProgress[]> {
    const found: GenerationProgress[] = []
    for (const generation of await this.#generations())
      found.push({ generation, cursor: await this.#cursorOf(generation) })
    return found
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.end()
  }

  async #generations(): Promise<number[]> {
    const first = await this.#schemaOf(1)
    const rows = await this.#rows<{ name: string }>(
      "select nspname as name from pg_namespace where nspname ~ '^tributary_index_[1-9][0-9]*$'",
    )
    const next = (await this.current()) + 1
    // A larger number is not ours, but the day of a copy, for instance.
    const numbered = rows
      .map(({ name }) => Number(name.slice('tributary_index_'.length)))
      .filter((generation) => generation <= next)
    return [...(first === undefined ? [] : [1]), ...numbered.toSorted((a, b) => a - b)]
  }

  /** Where the tables of a generation are, as SQL names it; undefined for a first one that is not there. */
  async #schemaOf(generation: number): Promise<string | undefined> {
    const own = schemaOf(generation)
    if (own !== undefined) return `"${own}"`
    const [first] = await this.#rows<{ schema: string }>(firstQuery)
    return first?.schema
  }

  async #remove(generation: number): Promise<void> {
    const schema = await this.#schemaOf(generation)
    if (schema === undefined) return
    const names = Object.keys(tables).filter((name) => name !== 'policies')
    // Views that others have made on the tables would keep the index from going on: they go with them.
    const statement =
      generation === 1
        ? `drop view if exists ${schema}."visibleRecords" cascade;
           drop table if exists ${names.map((name) => `${schema}."${name}"`).join(', ')} cascade`
        : `drop schema ${schema} cascade`
    await this.#rows(`set lock_timeout = ${removalWaitMs}; ${statement}; reset lock_timeout`)
  }

  async #cursorOf(generation: number): Promise<number> {
    const schema = await this.#schemaOf(generation)
    if (schema === undefined) return 0
    try {
      const [row] = await this.#rows<{ cursor: bigint | null }>(
        `select max("cursor") as "cursor" from ${schema}."cursors" where "source" like 'stream:%'`,
      )
      return Number(row?.cursor ?? 0n)
    } catch (error) {
      if (isMissingTable(error)) return 0
      throw error
    }
  }

  async #policy(name: string): Promise<number | undefined> {
    try {
      const [row] = await this.#rows<{ value: string }>('select "value" from "policies" where "name" = $1', [
        name,
      ])
      return row && readGeneration(row.value)
    } catch (error) {
      if (isMissingTable(error)) return undefined
      throw error
    }
  }

  async #setPolicy(name: string, generation: number): Promise<void> {
    try {
      await this.#rows(
        'insert into "policies" ("name", "value") values ($1, $2) on conflict ("name") do update set "value" = $2',
        [name, String(generation)],
      )
    } catch (error) {
      if (isMissingTable(error))
        throw new IndexStorageError('the database has no index yet', { cause: error })
      throw error
    }
  }

  async #rows<Row extends object>(statement: string, values?: string[]): Promise<Row[]> {
    const { rows } = await onPostgres(this.#pool.query<Row>(statement, values))
    return rows
  }
}

function isMissingTable(error: unknown): boolean {
  return error instanceof IndexStorageError && codeOf(error.cause) === undefinedTable
}

function codeOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}
