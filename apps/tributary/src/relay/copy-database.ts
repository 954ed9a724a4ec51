import { backup, DatabaseSync } from 'node:sqlite'

/**
 * Copies a database that another program may be writing, as it is at the call.
 *
 * SQLite begins a copy anew when somebody has written since its last part, so the copy of a large database that is
 * written all the time would never end. A transaction that reads keeps what it sees as it is.
 */
export async function copyDatabase(path: string, target: string): Promise<void> {
  using database = new DatabaseSync(path, { readOnly: true })
  database.exec('BEGIN')
  // A transaction begins with the first read.
  database.prepare('SELECT count(*) FROM sqlite_schema').get()
  await backup(database, target)
}
