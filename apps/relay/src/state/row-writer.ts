import type Database from 'better-sqlite3'
import type { StateRows } from './state-store.ts'

/** Identities are good for a day. */
const identityMs = 86_400_000
const sweepEveryMs = 3_600_000

/** Makes what writes into a database that is prepared: each call is one transaction. */
export function rowWriter(db: Database.Database): (rows: StateRows, nowMs: number) => void {
  const putAccount = db.prepare(`
    INSERT INTO account VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (did) DO UPDATE SET source_id = excluded.source_id, upstream_status = excluded.upstream_status,
      rev = excluded.rev, commit_digest = excluded.commit_digest, data_digest = excluded.data_digest,
      is_desynchronized = excluded.is_desynchronized,
      local_status = excluded.local_status, throttled_at_ms = excluded.throttled_at_ms, rare = excluded.rare`)
  const putSource = db.prepare(`
    INSERT INTO source VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, url = excluded.url, cursor = excluded.cursor,
      epoch = excluded.epoch, epoch_at_ms = excluded.epoch_at_ms, ahead = excluded.ahead`)
  const putIdentity = db.prepare(`
    INSERT INTO identity VALUES (?, ?, ?)
    ON CONFLICT (did) DO UPDATE SET document = excluded.document, fetched_at_ms = excluded.fetched_at_ms`)
  const dropIdentity = db.prepare('DELETE FROM identity WHERE did = ?')
  const dropOldIdentities = db.prepare('DELETE FROM identity WHERE fetched_at_ms < ?')
  const putApplied = db.prepare('UPDATE applied SET seq = ?')

  const dropCollections = db.prepare('DELETE FROM repo_collection WHERE did = ?')
  const putCollection = db.prepare('INSERT OR IGNORE INTO repo_collection VALUES (?, ?)')

  const write = db.transaction(({ appliedSeq, accounts, collections, sources, identities }: StateRows) => {
    for (const row of collections) putCollection.run(row)
    for (const [did, sourceId, upstreamStatus, rev, commit, data, ...rest] of accounts) {
      putAccount.run(did, sourceId, upstreamStatus, rev, bytesOf(commit), bytesOf(data), ...rest)
      if (upstreamStatus === 'deleted') dropCollections.run(did)
    }
    for (const { id, host, url, cursor, epoch, epochAtMs, ahead } of sources) {
      putSource.run(id, host, url, cursor, epoch, epochAtMs, JSON.stringify(ahead))
    }
    for (const [did, text, fetchedAtMs] of identities) {
      if (text === null) dropIdentity.run(did)
      else putIdentity.run(did, text, fetchedAtMs)
    }
    putApplied.run(appliedSeq)
  })

  let sweptAtMs = 0
  return (rows, nowMs) => {
    write(rows)
    if (nowMs - sweptAtMs < sweepEveryMs) return
    sweptAtMs = nowMs
    dropOldIdentities.run(nowMs - identityMs)
  }
}

function bytesOf(digest: string | null): Buffer | null {
  return digest === null ? null : Buffer.from(digest, 'latin1')
}
