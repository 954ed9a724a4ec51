/**
 * The relay's state beside its log: accounts, sources, and how much of the log is in here.
 * The log is the truth. This trails it: `appliedSeq` never passes what is durable there, so that after any stop
 * folding the rest of the log gives the state again.
 */
import type Database from 'better-sqlite3'
import { migrate } from './migrate.ts'

const migrations = [
  `CREATE TABLE applied (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL);
   INSERT INTO applied VALUES (1, 0);
   CREATE TABLE source (
     id INTEGER PRIMARY KEY,
     host TEXT NOT NULL UNIQUE,
     url TEXT NOT NULL,
     cursor INTEGER NOT NULL,
     epoch INTEGER NOT NULL,
     epoch_at_ms INTEGER NOT NULL,
     ahead TEXT NOT NULL
   );
   CREATE TABLE account (
     did TEXT PRIMARY KEY,
     source_id INTEGER NOT NULL,
     upstream_status TEXT NOT NULL,
     rev TEXT,
     commit_digest BLOB,
     data_digest BLOB,
     is_desynchronized INTEGER NOT NULL
   ) WITHOUT ROWID;`,
  `ALTER TABLE account ADD COLUMN local_status TEXT;
   ALTER TABLE account ADD COLUMN throttled_at_ms INTEGER NOT NULL DEFAULT 0;
   CREATE TABLE repo_collection (
     collection TEXT NOT NULL,
     did TEXT NOT NULL,
     PRIMARY KEY (collection, did)
   ) WITHOUT ROWID;
   CREATE INDEX repo_collection_did ON repo_collection (did);`,
  `CREATE TABLE identity (
     did TEXT PRIMARY KEY,
     document TEXT NOT NULL,
     fetched_at_ms INTEGER NOT NULL
   ) WITHOUT ROWID;`,
  `ALTER TABLE account ADD COLUMN rare TEXT;`,
  `ALTER TABLE source ADD COLUMN newest_logged TEXT NOT NULL DEFAULT '[]';`,
  `ALTER TABLE source ADD COLUMN looks TEXT NOT NULL DEFAULT '[]';`,
  `ALTER TABLE source ADD COLUMN lost_at_ms INTEGER NOT NULL DEFAULT 0;`,
  `ALTER TABLE source ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;`,
  `ALTER TABLE source ADD COLUMN walk_from TEXT NOT NULL DEFAULT '';`,
  `ALTER TABLE source ADD COLUMN caught_up_at_ms INTEGER NOT NULL DEFAULT 0;`,
]

/** Brings a database to the newest schema, and sets it up for one writer beside readers. */
export function prepare(db: Database.Database): void {
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = NORMAL')
  migrate(db, 'state.sqlite', migrations)
}
