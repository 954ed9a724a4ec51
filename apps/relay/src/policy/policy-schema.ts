import { operationsSchema } from '@tributary/operations'
import type Database from 'better-sqlite3'
import { migrate } from '../state/migrate.ts'

const migrations = [
  `CREATE TABLE source (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     host TEXT NOT NULL UNIQUE,
     url TEXT NOT NULL,
     policy TEXT NOT NULL,
     revision INTEGER NOT NULL,
     added_at_ms INTEGER NOT NULL,
     counts_for_day INTEGER NOT NULL
   );
   CREATE TABLE limits (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, value TEXT NOT NULL);
   CREATE TABLE domain_ban (
     domain TEXT PRIMARY KEY,
     reason TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL
   ) WITHOUT ROWID;
   CREATE TABLE takedown (
     did TEXT PRIMARY KEY,
     status TEXT NOT NULL,
     reason TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL
   ) WITHOUT ROWID;
   ${operationsSchema}`,
  `CREATE TABLE source_position (
     source_id INTEGER PRIMARY KEY,
     epoch INTEGER NOT NULL,
     cursor INTEGER NOT NULL
   );`,
]

/** Brings policy.sqlite to the newest schema. What is committed there survives a power cut. */
export function preparePolicy(db: Database.Database): void {
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  migrate(db, 'policy.sqlite', migrations)
}
