import assert from 'node:assert/strict'
import fs, { copyFileSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { PowerDisk, randomFrom } from '@tributary/testkit/disk'
import { commitAndSync, openStateDatabase, type StateDatabase } from './state-database.ts'

function add(database: StateDatabase, collection: string): void {
  database.prepare('INSERT INTO watched_collections VALUES (?, 1, ?, 1)').run(collection, 'test')
}

function collectionsIn(database: StateDatabase): unknown[] {
  return database.prepare('SELECT collection FROM watched_collections ORDER BY collection').pluck().all()
}

test('what is synced elsewhere is committed without a sync on the event loop, and everything else with one', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'state-database-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  const [normal, full] = [1, 2]
  const mode = (): unknown => database.pragma('synchronous', { simple: true })
  let within: unknown
  const noteAndAdd = (collection: string): void => {
    within = mode()
    add(database, collection)
  }
  await commitAndSync(database, () => noteAndAdd('app.one'))
  assert.deepEqual([within, mode()], [normal, full])
  const again = commitAndSync(database, () => {
    noteAndAdd('app.two')
    throw new Error('not this one')
  })
  await assert.rejects(again, /not this one/)
  assert.deepEqual([within, mode()], [normal, full])
  assert.deepEqual(collectionsIn(database), ['app.one'])
  database.close()
})

test('a database that a newer stream has written is refused, and left as it is', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'state-database-'))
  const path = join(directory.path, 'state.sqlite')
  const database = openStateDatabase(path)
  add(database, 'app.one')
  const version = Number(database.pragma('user_version', { simple: true }))
  database.pragma('user_version = 999')
  database.close()
  assert.throws(
    () => openStateDatabase(path),
    /has version 999, and this stream knows \d+: a newer stream has written it/,
  )
  const file = new DatabaseSync(path)
  assert.deepEqual(file.prepare('PRAGMA user_version').get()?.['user_version'], 999)
  file.exec(`PRAGMA user_version = ${version}`)
  file.close()
  const again = openStateDatabase(path)
  assert.deepEqual(collectionsIn(again), ['app.one'])
  again.close()
})

test(
  'a fault that SQLite keeps to itself fails the commit: the file is open for its sync before the change',
  { skip: process.platform !== 'linux' && 'the open files of a process are told on Linux' },
  async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'state-database-'))
    const path = join(directory.path, 'state.sqlite')
    const database = openStateDatabase(path)
    const openTimes = (): number =>
      readdirSync('/proc/self/fd').filter((fd) => linkOf(`/proc/self/fd/${fd}`) === `${path}-wal`).length
    let within = 0
    await commitAndSync(database, () => (within = openTimes()))
    assert.deepEqual([within, openTimes()], [2, 1])
    database.close()
  },
)

/** Undefined when it is not there any more, as what was opened to list others. */
function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

test('what a failed sync has left in memory alone is written again by the next start', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'state-database-'))
  const [first, root, left] = ['first', 'root', 'left'].map((name) => join(directory.path, name))
  assert.ok(first && root && left)
  mkdirSync(first)
  mkdirSync(root)
  const killed = openStateDatabase(join(first, 'state.sqlite'))
  add(killed, 'app.one')
  const wal = readFileSync(join(first, 'state.sqlite-wal'))
  add(killed, 'app.two')
  for (const name of ['state.sqlite', 'state.sqlite-wal']) copyFileSync(join(first, name), join(root, name))
  // The change that came last is not on the disk, though it is read.
  const power = new PowerDisk({ root, random: randomFrom(1) })
  const log = power.openSync(join(root, 'state.sqlite-wal'), 'r+')
  const bytes = readFileSync(join(root, 'state.sqlite-wal'))
  assert.ok(bytes.length > wal.length)
  power.ftruncateSync(log, wal.length)
  power.fsyncSync(log)
  power.writevSync(log, [bytes.subarray(wal.length)], wal.length)
  power.failNext()
  assert.throws(() => power.fsyncSync(log), { code: 'EIO' })

  const again = openStateDatabase(join(root, 'state.sqlite'), power)
  assert.deepEqual(collectionsIn(again), ['app.one', 'app.two'])
  power.materialize(left, 0)
  const after = openStateDatabase(join(left, 'state.sqlite'))
  assert.deepEqual(collectionsIn(after), ['app.one', 'app.two'])
  for (const database of [killed, again, after]) database.close()
  power.closeAll()
})

test('what is synced elsewhere is on the disk when that is said, whatever happens to the machine', async (t) => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'state-database-'))
  const path = join(directory.path, 'state.sqlite')
  const database = openStateDatabase(path)
  const synced = Promise.withResolvers<number>()
  const disk = Promise.withResolvers<void>()
  t.mock.method(fs, 'fdatasync', async (fd: number, done: (error: null) => void) => {
    synced.resolve(fs.fstatSync(fd).ino)
    await disk.promise
    done(null)
  })
  let isSaid = false
  const insert = database.prepare("INSERT INTO removed_collections VALUES ('app.one')")
  const commit = commitAndSync(database, () => void insert.run()).then(() => (isSaid = true))
  const first = await Promise.race([synced.promise, commit])
  assert.equal(first, fs.statSync(`${path}-wal`).ino, 'the log of SQLite has what was committed')
  assert.equal(isSaid, false)
  disk.resolve()
  await commit
  database.close()
})
