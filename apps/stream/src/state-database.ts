/**
 * The SQLite file beside the archive: what is known of each repository, how far the relay has been read, and policy with
 * its audit. What it says of rows trails the write-ahead log and never leads it.
 */
import fs from 'node:fs'
import { promisify } from 'node:util'
import { operationsSchema } from '@tributary/operations'
import Database from 'better-sqlite3'

export type StateDatabase = Database.Database

/** How changes are committed so that they outlast a power cut. */
export type CommitAndSync = typeof commitAndSync

/** Applied in order, each once; `user_version` counts them. */
const migrations = [
  `CREATE TABLE repos (
     did TEXT PRIMARY KEY,
     rev TEXT NOT NULL,
     data BLOB,
     sync_rev TEXT NOT NULL,
     identity_seen TEXT NOT NULL,
     account_seen TEXT NOT NULL,
     needs_refetch INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE upstream (
     id INTEGER PRIMARY KEY CHECK (id = 1),
     relay_url TEXT NOT NULL,
     epoch INTEGER NOT NULL,
     cursor INTEGER NOT NULL,
     epoch_began_ms INTEGER NOT NULL,
     applied_seq INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE watched_collections (
     collection TEXT PRIMARY KEY,
     added_at_ms INTEGER NOT NULL,
     actor TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE api_keys (
     sha256 BLOB PRIMARY KEY,
     name TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     revoked_at_ms INTEGER
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE repos ADD COLUMN written TEXT NOT NULL DEFAULT '[]'`,
  // States of older versions do not say how far blocks reach: -1.
  `ALTER TABLE upstream ADD COLUMN block_seq INTEGER NOT NULL DEFAULT -1`,
  `DROP TABLE api_keys`,
  `CREATE TABLE identities (
     did TEXT PRIMARY KEY,
     document TEXT NOT NULL,
     fetched_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX identities_by_age ON identities (fetched_at_ms);`,
  `CREATE TABLE watch_policy (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL) STRICT;
   INSERT INTO watch_policy SELECT 1, 1 WHERE EXISTS (SELECT 1 FROM watched_collections);
   ALTER TABLE watched_collections ADD COLUMN added_revision INTEGER NOT NULL DEFAULT 1;
   ${operationsSchema}`,
  `ALTER TABLE repos ADD COLUMN complete_revision INTEGER NOT NULL DEFAULT 0;
   CREATE INDEX repos_marked ON repos (did) WHERE needs_refetch = 1;
   CREATE TABLE archived_records (
     did TEXT NOT NULL,
     path TEXT NOT NULL,
     cid BLOB NOT NULL,
     PRIMARY KEY (did, path)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE backfill_hosts (
     host TEXT PRIMARY KEY,
     added_at_ms INTEGER NOT NULL,
     is_approved INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE backfill_jobs (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     host TEXT NOT NULL,
     collection TEXT NOT NULL,
     cause TEXT NOT NULL,
     state TEXT NOT NULL,
     revision INTEGER NOT NULL,
     cursor TEXT NOT NULL,
     is_listed INTEGER NOT NULL,
     listed INTEGER NOT NULL,
     created_at_ms INTEGER NOT NULL,
     ended_at_ms INTEGER NOT NULL,
     through_seq INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX backfill_jobs_by_host ON backfill_jobs (host, collection);
   CREATE TABLE backfill_repos (
     job_id INTEGER NOT NULL,
     did TEXT NOT NULL,
     state TEXT NOT NULL,
     rev TEXT NOT NULL,
     attempts INTEGER NOT NULL,
     next_at_ms INTEGER NOT NULL,
     detail TEXT NOT NULL,
     PRIMARY KEY (job_id, did)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX backfill_repos_due ON backfill_repos (job_id, state, next_at_ms);`,
  `CREATE TABLE api_keys (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     sha256 TEXT NOT NULL UNIQUE,
     owner TEXT NOT NULL,
     actor TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     revoked_at_ms INTEGER NOT NULL,
     requests_per_hour INTEGER NOT NULL,
     megabytes_per_day INTEGER NOT NULL
   ) STRICT;`,
  // The newest account event of each says who is hidden.
  `ALTER TABLE repos ADD COLUMN is_hidden INTEGER NOT NULL DEFAULT 0;
   CREATE INDEX repos_hidden ON repos (did) WHERE is_hidden = 1;
   UPDATE repos SET is_hidden = 1 WHERE account_seen LIKE '% false takendown' OR account_seen LIKE '% false suspended'
     OR account_seen LIKE '% false deactivated' OR account_seen LIKE '% false deleted' OR account_seen LIKE '% false ';`,
  `CREATE TABLE compaction (id INTEGER PRIMARY KEY CHECK (id = 1), compacted_seq INTEGER NOT NULL) STRICT;
   CREATE TABLE pending_takedowns (did TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
   INSERT INTO pending_takedowns SELECT did, 0 FROM repos WHERE account_seen LIKE '% false takendown';`,
  `ALTER TABLE repos ADD COLUMN backfill_rev TEXT NOT NULL DEFAULT ''`,
  `CREATE INDEX backfill_repos_unavailable ON backfill_repos (did) WHERE state = 'unavailable'`,
  `ALTER TABLE pending_takedowns ADD COLUMN looked_seq INTEGER NOT NULL DEFAULT -1;
   ALTER TABLE pending_takedowns ADD COLUMN up_to_seq INTEGER NOT NULL DEFAULT 0;`,
  `CREATE TABLE refusals (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     at_ms INTEGER NOT NULL,
     reason TEXT NOT NULL,
     kind TEXT,
     did TEXT,
     upstream_seq INTEGER,
     detail TEXT NOT NULL
   ) STRICT;
   CREATE INDEX refusals_by_reason ON refusals (reason, id);
   CREATE INDEX refusals_by_account ON refusals (did, id) WHERE did IS NOT NULL;`,
  `CREATE TABLE rereads (
     did TEXT PRIMARY KEY,
     count INTEGER NOT NULL,
     since_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX rereads_by_age ON rereads (since_ms);`,
  `CREATE TABLE removed_collections (collection TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE api_keys ADD COLUMN is_over INTEGER NOT NULL DEFAULT 0`,
  // Of a job that is retried, what comes after this DID is still to be tried again. NULL: nothing.
  `ALTER TABLE backfill_jobs ADD COLUMN retry_after TEXT`,
  // The notes of an account without a DID are of one that was forgotten, and are deleted by and by.
  `ALTER TABLE archived_records RENAME TO records_by_did;
   CREATE TABLE noted_accounts (id INTEGER PRIMARY KEY, did TEXT UNIQUE, notes INTEGER NOT NULL) STRICT;
   INSERT INTO noted_accounts (did, notes) SELECT did, count(*) FROM records_by_did GROUP BY did;
   CREATE TABLE archived_records (
     account INTEGER NOT NULL,
     path TEXT NOT NULL,
     cid BLOB NOT NULL,
     PRIMARY KEY (account, path)
   ) STRICT, WITHOUT ROWID;
   INSERT INTO archived_records SELECT id, path, cid FROM records_by_did JOIN noted_accounts USING (did);
   DROP TABLE records_by_did;`,
  `CREATE INDEX repos_to_read ON repos (did) WHERE needs_refetch = 1 AND is_hidden = 0`,
  `CREATE TABLE lost_rows (
     after_seq INTEGER PRIMARY KEY,
     through_seq INTEGER NOT NULL
   ) STRICT;`,
  `ALTER TABLE repos ADD COLUMN is_taken_down INTEGER NOT NULL DEFAULT 0;
   UPDATE repos SET is_taken_down = 1
     WHERE is_hidden = 1 AND (account_seen LIKE '% false takendown' OR account_seen LIKE '% false deleted');`,
  `CREATE TABLE account_check (
     id INTEGER PRIMARY KEY CHECK (id = 1),
     begins INTEGER NOT NULL,
     after_did TEXT
   ) STRICT;`,
  `ALTER TABLE backfill_jobs ADD COLUMN begins INTEGER NOT NULL DEFAULT 0`,
]

/** The calls by which a start writes. A test may put a disk of its own here. */
export interface StateDisk {
  openSync: (path: string, flags: string) => number
  writevSync: (fd: number, buffers: readonly Buffer[], position: number) => number
  fsyncSync: (fd: number) => void
  closeSync: (fd: number) => void
}

const chunkBytes = 1024 * 1024

/** Another process has the data directory open. */
export class DirectoryInUseError extends Error {
  override readonly name = 'DirectoryInUseError'
}

/**
 * Opens or creates the database and keeps every other process out of it until it is closed, which makes it the lock of
 * the data directory as well.
 * @throws DirectoryInUseError
 */
export function openStateDatabase(path: string, disk: StateDisk = fs): StateDatabase {
  const database = new Database(path, { timeout: 0 })
  try {
    database.pragma('locking_mode = EXCLUSIVE')
    database.pragma('journal_mode = WAL')
    // A commit must outlast a power cut: files of the write-ahead log are deleted on the strength of it.
    database.pragma('synchronous = FULL')
    // Taking the write lock also when there is nothing to do is what keeps a second process out.
    database.exec('BEGIN IMMEDIATE')
    if (!database.memory) writeAgain(logOf(database), disk)
    migrate(database)
    database.exec('COMMIT')
    return database
  } catch (cause) {
    database.close()
    if (cause instanceof Database.SqliteError && cause.code === 'SQLITE_BUSY') {
      throw new DirectoryInUseError(`${path} is in use by another process`, { cause })
    }
    throw cause
  }
}

/**
 * Makes changes in one transaction, and resolves when they outlast a power cut. The sync, which takes 100 ms on a disk
 * that has much to do, is waited for elsewhere than on the event loop.
 */
export async function commitAndSync(database: StateDatabase, change: () => void): Promise<void> {
  // SQLite syncs this file now and then, and keeps it to itself when it cannot. The system tells those of it, too, who had
  // the file open by then, and nobody who opens it later.
  const log = fs.openSync(logOf(database), 'r+')
  try {
    database.pragma('synchronous = NORMAL')
    try {
      database.transaction(change)()
    } finally {
      database.pragma('synchronous = FULL')
    }
    await promisify(fs.fdatasync)(log)
  } finally {
    fs.closeSync(log)
  }
}

/** What transactions changed is in this file, until SQLite has copied it and synced that. */
function logOf(database: StateDatabase): string {
  return `${database.name}-wal`
}

/**
 * Writes a file once more as it is, and syncs it. Where a write failed, the system may have it in memory alone and count it
 * as written. A power cut would take it then, and all that was committed later with it.
 */
function writeAgain(path: string, disk: StateDisk): void {
  const fd = disk.openSync(path, 'r+')
  try {
    const chunk = Buffer.allocUnsafe(chunkBytes)
    for (let at = 0, got = 0; (got = fs.readSync(fd, chunk, 0, chunkBytes, at)) > 0; at += got)
      for (let done = 0; done < got;) done += disk.writevSync(fd, [chunk.subarray(done, got)], at + done)
    disk.fsyncSync(fd)
  } finally {
    disk.closeSync(fd)
  }
}

function migrate(database: StateDatabase): void {
  const done = Number(database.pragma('user_version', { simple: true }))
  if (done > migrations.length) {
    throw new Error(
      `the state database has version ${done}, and this stream knows ${migrations.length}: a newer stream has written it`,
    )
  }
  for (const migration of migrations.slice(done)) database.exec(migration)
  database.pragma(`user_version = ${migrations.length}`)
}
