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

test('counts of an earlier day are deleted a few at a time, and more than come', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const put = database.prepare('INSERT INTO rereads VALUES (?, 1, 0)')
  for (let n = 0; n < 5; n++) put.run(`did:plc:old${n}`)
  const count = database.prepare<[], number>('SELECT count(*) FROM rereads').pluck()
  const states = { alongside: (change: () => void) => change() }
  const rereads = new Rereads({ database, states, max: 1, windowMs: 1000 })
  const counts = Array.from({ length: 4 }, (_, n) => {
    rereads.take(`did:plc:${n}`, 10_000)
    return count.get()
  })
  assert.deepEqual(counts, [4, 3, 3, 4])
})
