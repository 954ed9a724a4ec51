import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { LogTable, type LogTableOptions, openLogDatabase } from './logs.ts'

interface Row {
  atMs: number
  host: string
  detail: string | null
}

const schema = `
  CREATE TABLE IF NOT EXISTS log (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, host TEXT NOT NULL, detail TEXT
  );
  CREATE INDEX IF NOT EXISTS log_host ON log (host, id);`

/** A table in memory, and the same table as the next start finds it. */
function begin(t: TestContext, bounds: Partial<LogTableOptions<Row>> = {}) {
  const database = openLogDatabase(':memory:', schema)
  t.after(() => database.close())
  const open = () =>
    new LogTable<Row>(database, {
      table: 'log',
      columns: { atMs: 'at_ms', host: 'host', detail: 'detail' },
      share: 'host',
      rowsPerShareMax: 10,
      ageMsMax: 1000,
      ...bounds,
    })
  const rows = (host: string, count: number, atMs = 0): Row[] =>
    Array.from({ length: count }, (_, n) => ({ atMs, host, detail: `${host} ${n}` }))
  return { open, rows }
}

const all = { limit: 1000 }

test('each share keeps its newest rows, whatever comes of others, over a restart too', (t) => {
  const { open, rows } = begin(t)
  const table = open()
  table.add(rows('quiet', 1), 0)
  table.add(rows('noisy', 25), 0)
  assert.deepEqual(
    table.list({ ...all, host: 'noisy' }).map(({ detail }) => detail),
    Array.from({ length: 10 }, (_, n) => `noisy ${24 - n}`),
  )
  const again = open()
  again.add(rows('noisy', 1), 0)
  assert.deepEqual([again.list({ ...all, host: 'noisy' }).length, again.list(all).length], [10, 11])
})

test('rows that are too old go, and of all shares together the oldest', (t) => {
  const { open, rows } = begin(t, { rowsMax: 12 })
  const table = open()
  table.add(rows('a', 3, 0), 0)
  table.add(rows('b', 8, 500), 500)
  assert.equal(table.list(all, 1).length, 8, 'those before a time are left out')
  table.add(rows('c', 2, 900), 900)
  assert.deepEqual([table.list(all).length, table.list({ ...all, host: 'a' }).length], [12, 2])
  table.add(rows('c', 1, 1200), 1200)
  assert.equal(table.list({ ...all, host: 'a' }).length, 0)
})

test('a page goes on where the one before it ended, and a filter may be for what is not there', (t) => {
  const { open, rows } = begin(t)
  const table = open()
  table.add(rows('a', 3), 0)
  const [newest, second] = table.list({ limit: 2 })
  assert.deepEqual([newest?.detail, second?.detail], ['a 2', 'a 1'])
  assert.deepEqual(
    table.list({ limit: 2, before: second?.id ?? 0, host: undefined }).map(({ detail }) => detail),
    ['a 0'],
  )
  assert.deepEqual(table.list({ ...all, host: 'a', detail: 'other' }), [])
})
