import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { Rereads } from './rereads.ts'

test('a count of a day to come, noted before the clock was set back, keeps no repository from being read', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'rereads-'))
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  t.after(() => {
    database.close()
    rmSync(directory, { recursive: true })
  })
  const states = { alongside: () => {} }
  const rereads = new Rereads({ database, states, max: 1, windowMs: 1000 })
  rereads.take('did:plc:a', 10_000)
  const waits = [9001, 10_000, 10_999, 11_000, 9000].map((nowMs) => rereads.waitMs('did:plc:a', nowMs))
  assert.deepEqual(waits, [1999, 1000, 1, 0, 0])
})
