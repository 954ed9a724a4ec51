/**
 * Ten million records in an index database. Put one by one, they take an hour; here the database makes them itself, out of
 * a few templates, in the order of its trees, and makes the indexes of entries after that.
 */
import Sqlite from 'better-sqlite3'
import { type Did, entryKinds } from '@tributary/protocol'
import { freeTextFields, sampleRecord } from '@tributary/testkit'
import pg from 'pg'
import { collectionOf, recordCid, startMicros, stepMicros, views } from './feed-index.ts'

/** What a template says in place of the record's number and of its time. */
const numberMark = '9876543210'
const timeMark = '2025-01-01T00:00:00.000Z'
/** Texts of records have from one to so many sentences. */
const lengths = 5
const authorsPerStatement = 10_000

interface Engine extends AsyncDisposable {
  readonly run: (statement: string) => Promise<void>
  /** The statements that make the indexes of entries, which are dropped. */
  readonly dropIndexes: () => Promise<string[]>
  /** A table `numbers` of one column, `n`, from 0 on. */
  readonly numbers: (count: number) => string
  /** Text of a time in microseconds, as `timeMark` has it. */
  readonly timeOf: (micros: string) => string
  readonly bigint: string
}

/** Records with their entries and views. The first authors write the most, by a power law. */
export async function addEntriesInBulk(
  place: string,
  authors: readonly Did[],
  records: number,
): Promise<void> {
  await using engine = place.startsWith('postgres') ? await postgres(place) : sqlite(place)
  const { run } = engine
  await run('create temporary table "authors" ("number" bigint primary key, "did" text not null)')
  for (let at = 0; at < authors.length; at += authorsPerStatement) {
    const rows = authors.slice(at, at + authorsPerStatement).map((did, index) => `(${at + index}, '${did}')`)
    await run(`insert into "authors" values ${rows.join(', ')}`)
  }
  await run(`create temporary table "templates" ("template" bigint primary key, "kind" text not null,
    "collection" text not null, "json" text not null, "view" text)`)
  await run(`insert into "templates" values ${templates().join(', ')}`)

  // Shares that a golden ratio gives are even, and squared they are a power law.
  const share = `((made.n * 2654435761) % 4294967296) / 4294967296.0`
  await run(`create temporary table "made" as
    select made.n as "number", author."did", template."template",
      'at://' || author."did" || '/' || template."collection" || '/r' || (1000000000 + made.n) as "uri",
      ${startMicros} + made.n * cast(${stepMicros} as ${engine.bigint}) as "time"
    from (${engine.numbers(records)}) as made
    join "authors" as author on author."number" = cast(floor(${authors.length} * (${share}) * (${share})) as ${engine.bigint})
    join "templates" as template on template."template" = (made.n * 40503 / 7) % ${entryKinds.length * lengths}`)
  const indexes = await engine.dropIndexes()
  const filled = (column: string): string =>
    `replace(replace(template."${column}", '${numberMark}', cast(made."number" as text)),
      '${timeMark}', ${engine.timeOf('made."time"')})`
  const from = `from "made" as made join "templates" as template on template."template" = made."template"`
  await run(`insert into "records" ("uri", "did", "collection", "cid", "json", "indexedAt", "createdAt", "feedTime")
    select made."uri", made."did", template."collection", '${recordCid}',
      ${filled('json')}, made."time", made."time", made."time" ${from} order by made."uri"`)
  await run(`insert into "views" ("uri", "did", "view")
    select made."uri", made."did", ${filled('view')} ${from} where template."view" is not null order by made."uri"`)
  await run(`insert into "entries" ("uri", "did", "kind", "feedTime")
    select made."uri", made."did", template."kind", made."time" ${from} order by made."uri"`)
  for (const statement of indexes) await run(statement)
}

/** Values of rows: a record of each kind in each length, and what is shown of it. */
function templates(): string[] {
  return entryKinds.flatMap((kind, at) =>
    Array.from({ length: lengths }, (_, length) => {
      const collection = collectionOf[kind]
      const free = freeTextFields[collection]
      const text = `${numberMark} ${'what was planted and measured this season '.repeat(1 + length)}`
      const fields = free === undefined ? {} : { [free.field]: text.slice(0, free.charsMax) }
      const record = sampleRecord(collection, { createdAt: timeMark, ...fields })
      const view = views.of(collection, record)
      const values = [kind, collection, JSON.stringify(record), view ?? null]
      const texts = values.map((value) => (value === null ? 'null' : `'${value.replaceAll("'", "''")}'`))
      return `(${at * lengths + length}, ${texts.join(', ')})`
    }),
  )
}

function sqlite(path: string): Engine {
  const db = new Sqlite(path)
  db.pragma('cache_size = -500000')
  db.pragma('temp_store = file')
  return {
    run: async (statement) => void db.exec(statement),
    dropIndexes: async () => {
      const found = db
        .prepare<[], { name: string; sql: string }>(
          `select name, sql from sqlite_schema where type = 'index' and tbl_name = 'entries' and sql is not null`,
        )
        .all()
      for (const { name } of found) db.exec(`drop index "${name}"`)
      return found.map(({ sql }) => sql)
    },
    numbers: (count) =>
      `with recursive numbers(n) as (select 0 union all select n + 1 from numbers where n + 1 < ${count})
       select n from numbers`,
    timeOf: (micros) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${micros} / 1000000.0, 'unixepoch')`,
    bigint: 'integer',
    [Symbol.asyncDispose]: async () => void db.close(),
  }
}

async function postgres(url: string): Promise<Engine> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const run = async (statement: string): Promise<void> => void (await client.query(statement))
  await run(`set work_mem = '256MB'; set maintenance_work_mem = '512MB'`)
  return {
    run,
    dropIndexes: async () => {
      const { rows } = await client.query<{ name: string; sql: string }>(
        `select indexname as "name", indexdef as "sql" from pg_indexes
         where tablename = 'entries' and indexdef not like 'CREATE UNIQUE%'`,
      )
      for (const { name } of rows) await run(`drop index "${name}"`)
      return rows.map(({ sql }) => sql)
    },
    numbers: (count) => `select n from generate_series(cast(0 as bigint), ${count - 1}) as numbers(n)`,
    timeOf: (micros) =>
      `to_char(to_timestamp(${micros} / 1000000.0) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
    bigint: 'bigint',
    [Symbol.asyncDispose]: () => client.end(),
  }
}
