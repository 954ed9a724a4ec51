import type Database from 'better-sqlite3'
import { columns, commonRowSql, isCommonSql, type SqlValue } from './account-row.ts'
import type { StoredAccounts } from './account-table.ts'

/** Common rows that are read in one piece. */
const pieceRows = 1000

/**
 * All accounts of the database, but those that would be forgotten at once. Common rows come as bytes, many in one piece:
 * a million accounts would take four times as long when each value of each was handed over.
 */
export function storedAccounts(db: Database.Database): StoredAccounts {
  return { common: readCommon(db), others: readOthers(db) }
}

function* readCommon(db: Database.Database): Generator<Buffer> {
  const select = db.prepare<[string], { last: string | null; rows: Buffer | null }>(
    `SELECT max(did) last, CAST(group_concat(${commonRowSql}, '') FILTER (WHERE ${isCommonSql}) AS BLOB) rows
     FROM (SELECT * FROM account WHERE did > ? ORDER BY did LIMIT ${pieceRows})`,
  )
  for (let piece = select.get(''); typeof piece?.last === 'string'; piece = select.get(piece.last))
    if (piece.rows) yield piece.rows
}

function readOthers(db: Database.Database): Iterable<SqlValue[]> {
  return db
    .prepare<[], SqlValue[]>(
      `SELECT ${columns.map(({ name }) => name).join()} FROM account
       WHERE (${isCommonSql}) IS NOT TRUE
         AND (source_id > 0 OR is_desynchronized = 2 OR local_status IS NOT NULL)`,
    )
    .raw()
    .iterate()
}
