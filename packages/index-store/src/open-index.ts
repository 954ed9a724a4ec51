import type { Generations } from './generations.ts'
import { PostgresGenerations } from './postgres/postgres-generations.ts'
import { PostgresReader } from './postgres/postgres-reader.ts'
import { PostgresWriter } from './postgres/postgres-writer.ts'
import type { IndexReader } from './reader.ts'
import type { WindowBounds } from './select/window.ts'
import { generationPath, type RemoveFile, SqliteGenerations } from './sqlite/sqlite-generations.ts'
import { SqliteReader } from './sqlite/sqlite-reader.ts'
import { SqliteWriter } from './sqlite/sqlite-writer.ts'
import type { IndexWriter } from './writer.ts'

interface WriterOptions {
  turnMs?: number
  generation?: number
  threadPagesMin?: number
  answerMs?: number
}

/** How long a transaction goes on before the event loop gets its turn. */
const turnMsDefault = 20
const postgresUrl = /^postgres(?:ql)?:\/\//

/**
 * Opens a generation of an index database for writing, creates its tables if need be and brings it to the present schema.
 * Only one process may have it open this way.
 * @param place the path of an SQLite file, `:memory:` for one that goes with the writer, or the URL of a PostgreSQL database
 * @param generation the one that is read, unless given
 * @param turnMs how long a transaction goes on before the event loop gets its turn
 * @param answerMs time in which a PostgreSQL server must answer each statement
 * @param threadPagesMin new pages of SQLite's log, 4 KB each, for which a thread is begun that writes the log back
 */
export async function openIndexWriter(
  place: string,
  { turnMs = turnMsDefault, generation, threadPagesMin, answerMs }: WriterOptions = {},
): Promise<IndexWriter> {
  const number = generation ?? (await currentOf(place))
  return postgresUrl.test(place)
    ? PostgresWriter.open(place, turnMs, number, answerMs)
    : SqliteWriter.open(generationPath(place, number), turnMs, threadPagesMin)
}

/**
 * Reads the index database at a place. It is opened when it is first read: until then it need not be there.
 * @param window how pages of many accounts are selected, which changes what they cost and not what they hold
 */
export function openIndexReader(place: string, { window }: { window?: WindowBounds } = {}): IndexReader {
  return postgresUrl.test(place) ? new PostgresReader(place, window) : new SqliteReader(place, window)
}

/**
 * The generations at a place.
 * @param removeFile removes a file of SQLite. Unless given, a thread does.
 */
export function openGenerations(place: string, removeFile?: RemoveFile): Generations {
  return postgresUrl.test(place) ? new PostgresGenerations(place) : new SqliteGenerations(place, removeFile)
}

async function currentOf(place: string): Promise<number> {
  await using generations = openGenerations(place)
  return await generations.current()
}
