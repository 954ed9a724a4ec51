import Database from 'better-sqlite3'
import { prepare } from './schema.ts'

/**
 * Empties the stored state, so that the start that follows folds all of the log again and every source is read from
 * its oldest event. Sources keep their ids and epochs, by which the records of the log name them; what the log has
 * from a source is not logged a second time.
 */
export function resetState(path: string): void {
  const db = new Database(path)
  try {
    prepare(db)
    db.transaction(() => {
      db.exec(`DELETE FROM account; UPDATE source SET cursor = 0, ahead = '[]'; UPDATE applied SET seq = 0`)
    })()
  } finally {
    db.close()
  }
}
