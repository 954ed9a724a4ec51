import Database from 'better-sqlite3'

/**
 * Opens or creates a file of its own for a `LogTable`. What was written last may be lost by a power cut.
 * @param schema is run each time, so it says `IF NOT EXISTS`.
 */
export function openLogDatabase(path: string, schema: string): Database.Database {
  const database = new Database(path)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = NORMAL')
  database.exec(schema)
  return database
}
