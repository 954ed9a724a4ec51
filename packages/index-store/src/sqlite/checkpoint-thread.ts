/** The thread of one checkpoint. */
import { workerData } from 'node:worker_threads'
import Sqlite from 'better-sqlite3'
import type { CheckpointWork } from './checkpoint.ts'

const { path, mode, readersMs } = workerData as CheckpointWork // what `Checkpoint` gives
const sqlite = new Sqlite(path, { fileMustExist: true, timeout: readersMs })
try {
  sqlite.pragma(`wal_checkpoint(${mode})`)
} finally {
  sqlite.close()
}
