import pg from 'pg'
import { IndexStorageError } from '../storage-error.ts'

/** Values that a column or an index cannot take, rows that a key does not allow, and rows that are put twice at once. */
const ownFault = /^(?:21|22|23|54)/

/** Waits for PostgreSQL. That it could not be reached, or could not read or write, is thrown as IndexStorageError. */
export async function onPostgres<T>(calls: Promise<T>): Promise<T> {
  try {
    return await calls
  } catch (error) {
    if (error instanceof pg.DatabaseError && ownFault.test(error.code ?? '')) throw error
    const what = error instanceof Error ? error.message : String(error)
    throw new IndexStorageError(`PostgreSQL failed: ${what}`, { cause: error })
  }
}
