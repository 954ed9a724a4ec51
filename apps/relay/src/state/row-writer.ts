import type { Did } from '@tributary/protocol'
import type Database from 'better-sqlite3'
import { SqliteError } from 'better-sqlite3'
import { AccountRow, columns, rowBytes, type PackedAccounts } from './account-row.ts'
import type { StateWrite } from './state-write.ts'

/** Identities are good for a day. */
const identityMs = 86_400_000
const sweepEveryMs = 3_600_000
/** A transaction is not synced by itself: after a power cut the database is as it was at its last checkpoint, or later. */
const syncEveryMs = 10_000
/** Collections of one account that are listed. */
const collectionsMax = 1000

/**
 * Makes what writes into a database that is prepared: each call is one transaction. It returns whether all that was
 * written is synced, too. The first call syncs, and then one every ten seconds.
 */
export function rowWriter(db: Database.Database): (rows: StateWrite, nowMs: number) => boolean {
  const names = columns.map(({ name }) => name)
  const putAccount = db.prepare(`
    INSERT INTO account (${names.join()}) VALUES (${names.map(() => '?').join()})
    ON CONFLICT (did) DO UPDATE SET ${names.map((name) => `${name} = excluded.${name}`).join()}`)
  const dropAccount = db.prepare('DELETE FROM account WHERE did = ? AND source_id = 0')
  const putSource = db.prepare(`
    INSERT INTO source VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, url = excluded.url, cursor = excluded.cursor,
      epoch = excluded.epoch, epoch_at_ms = excluded.epoch_at_ms, ahead = excluded.ahead,
      newest_logged = excluded.newest_logged, looks = excluded.looks, lost_at_ms = excluded.lost_at_ms,
      revision = excluded.revision, walk_from = excluded.walk_from,
      caught_up_at_ms = excluded.caught_up_at_ms`)
  const putIdentity = db.prepare(`
    INSERT INTO identity VALUES (?, ?, ?)
    ON CONFLICT (did) DO UPDATE SET document = excluded.document, fetched_at_ms = excluded.fetched_at_ms`)
  const dropIdentity = db.prepare('DELETE FROM identity WHERE did = ?')
  const dropOldIdentities = db.prepare('DELETE FROM identity WHERE fetched_at_ms < ?')
  const putApplied = db.prepare('UPDATE applied SET seq = ?')

  const dropCollections = db.prepare('DELETE FROM repo_collection WHERE did = ?')
  const putCollection = db.prepare('INSERT OR IGNORE INTO repo_collection VALUES (?, ?)')
  const collectionsOf = db
    .prepare<[Did], number>('SELECT count(*) FROM repo_collection WHERE did = ?')
    .pluck()
  const putCollections = (collections: StateWrite['collections']): void => {
    const counts = new Map<Did, number>()
    for (const [names, did] of collections) {
      if (names === undefined) {
        // Each change of a deleted account brings this again.
        if (counts.get(did) !== 0) dropCollections.run(did)
        counts.set(did, 0)
        continue
      }
      let count = counts.get(did) ?? collectionsOf.get(did) ?? 0
      for (const collection of names.split(' '))
        if (count < collectionsMax) count += putCollection.run(collection, did).changes
      counts.set(did, count)
    }
  }

  const write = db.transaction((rows: StateWrite) => {
    const { appliedSeq, forgotten, accounts, collections, sources, identities } = rows
    putCollections(collections)
    for (const did of forgotten) dropAccount.run(did)
    for (const account of accounts.flatMap(accountsIn))
      // A start leaves out accounts that are about to be forgotten, so that nothing would take them off again.
      if (account.sourceId === 0 && !account.isIncomplete && account.localStatus === undefined)
        dropAccount.run(account.did)
      else putAccount.run(account.values)
    for (const source of sources) {
      const {
        id,
        host,
        url,
        cursor,
        epoch,
        epochAtMs,
        ahead,
        newestLogged,
        looks,
        lostAtMs,
        revision,
        walkFrom,
        caughtUpAtMs,
      } = source
      const known = [ahead, newestLogged, looks].map((list) => JSON.stringify(list))
      const since = [lostAtMs, revision, walkFrom, caughtUpAtMs]
      putSource.run(id, host, url, cursor, epoch, epochAtMs, ...known, ...since)
    }
    for (const [did, text, fetchedAtMs] of identities) {
      if (text === null) dropIdentity.run(did)
      else putIdentity.run(did, text, fetchedAtMs)
    }
    putApplied.run(appliedSeq)
  })

  let sweptAtMs = 0
  let syncedAtMs = -Infinity
  return (rows, nowMs) => {
    write.immediate(rows)
    if (nowMs - sweptAtMs >= sweepEveryMs) {
      sweptAtMs = nowMs
      dropOldIdentities.run(nowMs - identityMs)
    }
    // The clock may have been set back.
    if (Math.abs(nowMs - syncedAtMs) < syncEveryMs) return false
    const isSynced = isCheckpointWhole(db)
    if (isSynced) syncedAtMs = nowMs
    return isSynced
  }
}

/**
 * Moves the newest transactions into the database, of which SQLite syncs their file first and the database afterwards. A
 * reader that began earlier may keep SQLite from some of them, and from the sync. Then the next write tries again.
 */
function isCheckpointWhole(db: Database.Database): boolean {
  try {
    const checkpoint = db.prepare<[], [number, number, number]>('PRAGMA wal_checkpoint(PASSIVE)').raw()
    const [busy, framesWritten, framesMoved] = checkpoint.get() ?? [1, 0, 0]
    return busy === 0 && framesWritten === framesMoved
  } catch (error) {
    // The transaction itself had room. What else fails may lose what the file has, so it ends the relay.
    if (error instanceof SqliteError && error.code === 'SQLITE_FULL') return false
    throw error
  }
}

function accountsIn({ bytes, rare }: PackedAccounts): AccountRow[] {
  const rows = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const values = new Map(rare)
  return Array.from(
    { length: rows.length / rowBytes },
    (_, row) => new AccountRow(rows, row * rowBytes, values, row),
  )
}
