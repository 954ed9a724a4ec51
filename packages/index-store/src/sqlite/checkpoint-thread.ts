/** The thread of one checkpoint. It waits for nobody: what a reader still needs stays in the log for the next time. */
import { workerData } from 'node:worker_threads'
import Sqlite from 'better-sqlite3'

const sqlite = new Sqlite(String(workerData), { fileMustExist: true })
try {
  sqlite.pragma('wal_checkpoint(PASSIVE)')
} finally {
  sqlite.close()
}
