import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { resetState } from './reset-state.ts'
import { prepare } from './schema.ts'

test('a state that is reset keeps the ids of sources and the takedowns, and nothing that the log tells', () => {
  const directory = mkdtempSync(join(tmpdir(), 'reset-state-'))
  const path = join(directory, 'state.sqlite')
  const before = new Database(path)
  prepare(before)
  before.exec(`
    UPDATE applied SET seq = 70;
    INSERT INTO source VALUES (3, 'pds.example', 'wss://pds.example', 55, 2, 0, '[57]', '[["did:plc:a", 57]]', '[["did:plc:a", true]]', 9, 4, 'did:plc:b', 60);
    INSERT INTO account (did, source_id, upstream_status, rev, is_desynchronized, local_status)
      VALUES ('did:plc:a', 3, 'active', '3k', 0, NULL), ('did:plc:b', 3, 'deleted', '3k', 1, 'takendown');
    INSERT INTO repo_collection VALUES ('a.b.c', 'did:plc:a')`)
  before.close()
  resetState(path, 77)
  const after = new Database(path)
  const all = (sql: string): unknown[] => after.prepare(sql).all()
  assert.deepEqual(all('SELECT seq FROM applied'), [{ seq: 0 }])
  assert.deepEqual(
    all(
      'SELECT id, host, cursor, epoch, epoch_at_ms, ahead, newest_logged, looks, lost_at_ms, revision, walk_from, caught_up_at_ms FROM source',
    ),
    [
      {
        id: 3,
        host: 'pds.example',
        cursor: 0,
        epoch: 3,
        epoch_at_ms: 77,
        ahead: '[]',
        newest_logged: '[]',
        looks: '[]',
        lost_at_ms: 9,
        revision: 4,
        walk_from: '',
        caught_up_at_ms: 60,
      },
    ],
  )
  assert.deepEqual(all('SELECT did, source_id, upstream_status, rev, local_status FROM account'), [
    { did: 'did:plc:b', source_id: 0, upstream_status: 'active', rev: null, local_status: 'takendown' },
  ])
  assert.deepEqual(all('SELECT * FROM repo_collection'), [])
  after.close()
  rmSync(directory, { recursive: true })
})
