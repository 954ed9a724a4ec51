import Database from 'better-sqlite3'
import { prepare } from './schema.ts'

/**
 * Empties the stored state, so that the start that follows folds all of the log again and every source is read from
 * its oldest event, in a new epoch. Sources keep their ids, by which the records of the log name them, and accounts
 * what operators decided of them. What the log holds already drops by its revision; only announcements of accounts may
 * be repeated, and one from before now passes only if the account's host says the same now.
 */
export function resetState(path: string, nowMs: number): void {
  const db = new Database(path)
  try {
    prepare(db)
    db.transaction(() => {
      db.exec(`
        DELETE FROM account WHERE local_status IS NULL;
        UPDATE account SET source_id = 0, upstream_status = 'active', rev = NULL, commit_digest = NULL,
          data_digest = NULL, is_desynchronized = 0, throttled_at_ms = 0, rare = NULL;
        DELETE FROM repo_collection;
        UPDATE source SET cursor = 0, epoch = epoch + 1, ahead = '[]', newest_logged = '[]', looks = '[]', walk_from = '';
        UPDATE applied SET seq = 0`)
      db.prepare('UPDATE source SET epoch_at_ms = ?').run(nowMs)
    })()
  } finally {
    db.close()
  }
}
