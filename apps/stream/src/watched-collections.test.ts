import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from './state-database.ts'
import { loadWatchedCollections } from './watched-collections.ts'

test('the settings say what an empty data directory watches, and nothing after that', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  assert.throws(() => loadWatchedCollections(database, ['app.a.b', 'nothing'], 1), RangeError)
  assert.deepEqual([...loadWatchedCollections(database, ['app.a.b'], 1)], ['app.a.b'])
  assert.deepEqual([...loadWatchedCollections(database, ['app.c.d'], 2)], ['app.a.b'])
})
