import type { IndexReader } from './reader.ts'
import { SqliteReader } from './sqlite/sqlite-reader.ts'
import { SqliteWriter } from './sqlite/sqlite-writer.ts'
import type { IndexWriter } from './writer.ts'

/** How long a transaction goes on before the event loop gets its turn. */
const turnMsDefault = 20

/**
 * Opens the database at `path` for writing, creates it if need be and brings it to the present schema. Only one process
 * may have it open this way. `turnMs` is how long a transaction goes on before the event loop gets its turn.
 */
export function openIndexWriter(
  path: string,
  { turnMs = turnMsDefault }: { turnMs?: number } = {},
): Promise<IndexWriter> {
  return SqliteWriter.open(path, turnMs)
}

/** Reads the index database at `path`. It is opened when it is first read: until then it need not be there. */
export function openIndexReader(path: string): IndexReader {
  return new SqliteReader(path)
}
