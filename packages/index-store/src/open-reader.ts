import type { IndexReader } from './reader.ts'
import { SqliteReader } from './sqlite/sqlite-reader.ts'

/** Reads the index database at `path`. It is opened when it is first read: until then it need not be there. */
export function openIndexReader(path: string): IndexReader {
  return new SqliteReader(path)
}
