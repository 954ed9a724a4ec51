import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { copyDatabase } from './copy-database.ts'

/** More than one part of a copy, which has 100 pages of 4 KiB. */
const rows = 2000

test('a copy is of the moment at which it began, whatever is written meanwhile', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'copy-database-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const [path, target] = [join(directory, 'state.sqlite'), join(directory, 'copy.sqlite')]
  using writer = new DatabaseSync(path)
  writer.exec('PRAGMA journal_mode = WAL; CREATE TABLE account (did TEXT, rest BLOB)')
  const put = writer.prepare('INSERT INTO account VALUES (?, randomblob(1000))')
  writer.exec('BEGIN')
  for (let row = 0; row < rows; row++) put.run(`before ${row}`)
  writer.exec('COMMIT')
  const copying = copyDatabase(path, target)
  put.run('meanwhile')
  await copying
  using copy = new DatabaseSync(target, { readOnly: true })
  const count = copy.prepare('SELECT count(*) AS count FROM account').get()
  assert.deepEqual({ ...count }, { count: rows })
  assert.deepEqual({ ...copy.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' })
})
