import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { WatchedCollections } from './watched-collections.ts'

test('the settings say what an empty data directory watches, and nothing after that', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const open = (...seed: string[]) => new WatchedCollections(database, seed, 1)
  assert.throws(() => open('app.a.b', 'nothing'), RangeError)
  const watched = open('app.a.b')
  assert.deepEqual([[...watched.names()], watched.revision], [['app.a.b'], 1])
  assert.deepEqual([...open('app.c.d').names()], ['app.a.b'])
  watched.remove('app.a.b')
  const empty = open('app.c.d')
  assert.deepEqual([[...empty.names()], empty.revision], [[], 2])
})

test('what a change stores counts from the reload on, with who made it and a revision of its own', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const watched = new WatchedCollections(database, ['app.a.b'], 1)
  watched.add('app.c.d', 'ann', 7)
  assert.equal(watched.has('app.c.d'), false)
  watched.reload()
  assert.deepEqual(watched.list(), [
    { collection: 'app.a.b', addedAtMs: 1, addedRevision: 1, actor: 'settings' },
    { collection: 'app.c.d', addedAtMs: 7, addedRevision: 2, actor: 'ann' },
  ])
  assert.deepEqual(
    [watched.isAddedAfter('app.c.d', 1), watched.newestAddition, watched.unwatchedOf(['app.*', 'org.*'])],
    [true, 2, ['org.*']],
  )
  watched.remove('app.a.b')
  watched.reload()
  assert.deepEqual([watched.has('app.a.b'), watched.revision], [false, 3])
  watched.add('app.a.b', 'ann', 8)
  watched.reload()
  const again = [
    [0, 3],
    [3, 4],
    [4, 5],
  ] as const
  assert.deepEqual(
    again.map(([after, through]) => watched.isAnyAddedAgain(after, through)),
    [false, true, false],
  )
})
