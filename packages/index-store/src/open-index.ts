import { PostgresReader } from './postgres/postgres-reader.ts'
import { PostgresWriter } from './postgres/postgres-writer.ts'
import type { IndexReader } from './reader.ts'
import { SqliteReader } from './sqlite/sqlite-reader.ts'
import { SqliteWriter } from './sqlite/sqlite-writer.ts'
import type { IndexWriter } from './writer.ts'

/** How long a transaction goes on before the event loop gets its turn. */
const turnMsDefault = 20
const postgresUrl = /^postgres(?:ql)?:\/\//

/**
 * Opens an index database for writing, creates its tables if need be and brings it to the present schema. Only one process
 * may have it open this way.
 * @param place the path of an SQLite file, `:memory:` for one that goes with the writer, or the URL of a PostgreSQL database
 * @param turnMs how long a transaction goes on before the event loop gets its turn
 */
export function openIndexWriter(
  place: string,
  { turnMs = turnMsDefault }: { turnMs?: number } = {},
): Promise<IndexWriter> {
  return postgresUrl.test(place) ? PostgresWriter.open(place, turnMs) : SqliteWriter.open(place, turnMs)
}

/** Reads the index database at a place. It is opened when it is first read: until then it need not be there. */
export function openIndexReader(place: string): IndexReader {
  return postgresUrl.test(place) ? new PostgresReader(place) : new SqliteReader(place)
}
