import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import Database from 'better-sqlite3'
import { rowWriter } from './row-writer.ts'
import { prepare } from './schema.ts'

function databaseOf(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'row-writer-'))
  const [db, reader] = [1, 2].map(() => new Database(join(directory, 'state.sqlite'))) as [
    Database.Database,
    Database.Database,
  ] // two
  prepare(db)
  t.after(() => {
    reader.close()
    db.close()
    rmSync(directory, { recursive: true })
  })
  const write = rowWriter(db)
  return {
    db,
    reader,
    write: (appliedSeq: number, nowMs: number): boolean =>
      write({ appliedSeq, forgotten: [], accounts: [], collections: [], sources: [], identities: [] }, nowMs),
  }
}

test('what is written counts as synced only when no reader kept the checkpoint from it', (t) => {
  const { reader, write } = databaseOf(t)
  assert.equal(write(1, 0), true)
  assert.equal(write(2, 9999), false, 'it is not due')
  assert.equal(write(3, 10_000), true)
  const reading = reader.prepare('SELECT * FROM applied').iterate()
  reading.next()
  assert.equal(write(4, 20_000), false)
  assert.equal(write(5, 20_250), false)
  reading.return?.()
  assert.equal(write(6, 20_500), true)
})

test('a checkpoint syncs what it moves', (t) => {
  const { db } = databaseOf(t)
  assert.equal(db.pragma('synchronous', { simple: true }), 1, 'NORMAL')
})

test('a checkpoint for which the disk has no room costs no write, and what the disk fails at ends the relay', (t) => {
  const { db, write } = databaseOf(t)
  const atCheckpoint = t.mock.method(db, 'prepare')
  const fail = (code: string): void =>
    atCheckpoint.mock.mockImplementation((): never => {
      throw new Database.SqliteError('cannot write', code)
    })
  fail('SQLITE_FULL')
  assert.equal(write(1, 0), false)
  fail('SQLITE_IOERR_FSYNC')
  assert.throws(() => write(2, 250), { code: 'SQLITE_IOERR_FSYNC' })
  atCheckpoint.mock.restore()
  assert.equal(write(3, 500), true)
})
