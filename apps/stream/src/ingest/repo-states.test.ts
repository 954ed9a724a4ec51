import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Identity } from '@tributary/identity'
import type { Did, Handle } from '@tributary/protocol'
import { openStateDatabase, type StateDatabase } from '../state-database.ts'
import { markedMax, RepoStates, unknownRepo } from './repo-states.ts'

function newDatabase(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'repo-states-'))
  const path = join(directory, 'state.sqlite')
  const database = openStateDatabase(path)
  t.after(() => {
    database.close()
    rmSync(directory, { recursive: true })
  })
  return { path, database }
}

const did = 'did:plc:a'
/** Puts states of repositories into the database, from `did:plc:1` on. */
function fill(database: StateDatabase, count: number, needsRefetch: 0 | 1): void {
  database
    .prepare(
      `INSERT INTO repos (did, rev, sync_rev, identity_seen, account_seen, needs_refetch)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
       SELECT 'did:plc:' || n, 'one', '', '', '', ? FROM numbers`,
    )
    .run(count, needsRefetch)
}

const positionAt = (cursor: number) => ({ relayUrl: 'ws://relay', epoch: 0, epochBeganMs: 0, cursor })

test('states and position are saved when the rows behind them are durable, and not before', async (t) => {
  const { database } = newDatabase(t)
  const states = new RepoStates(database)
  const saved = (): unknown => {
    const again = new RepoStates(database)
    return [again.get(did)?.rev, again.position?.cursor, again.covered.appliedSeq]
  }
  states.set(did, { ...unknownRepo, rev: 'one' })
  const durable = Promise.withResolvers<void>()
  const saving = states.save(positionAt(7), { appliedSeq: 5, blockSeq: 4 }, durable.promise)
  assert.deepEqual(saved(), [undefined, undefined, 0])
  assert.deepEqual([states.get(did)?.rev, states.dirtyCount, states.covered.appliedSeq], ['one', 0, 0])
  // What changes meanwhile is for the next save.
  states.set(did, { ...unknownRepo, rev: 'two' })
  durable.resolve()
  await saving
  assert.deepEqual(saved(), ['one', 7, 5])
  assert.deepEqual([states.get(did)?.rev, states.dirtyCount], ['two', 1])
  await states.save(positionAt(8), { appliedSeq: 6, blockSeq: 6 }, Promise.resolve())
  assert.deepEqual(saved(), ['two', 8, 6])
})

test('identities of more than a day ago are deleted, a few with each save', async (t) => {
  const { database } = newDatabase(t)
  const put = database.prepare('INSERT INTO identities VALUES (?, ?, ?)')
  for (let n = 0; n < 250; n++) put.run(`did:plc:${n}`, '{}', Date.now() - 86_400_001 - n)
  put.run('did:plc:young', '{}', Date.now())
  const count = database.prepare<[], number>('SELECT count(*) FROM identities').pluck()
  const states = new RepoStates(database)
  const counts: (number | undefined)[] = []
  for (let save = 0; save < 4; save++) {
    await states.save(positionAt(save), { appliedSeq: 0, blockSeq: 0 }, Promise.resolve())
    counts.push(count.get())
  }
  assert.deepEqual(counts, [151, 51, 1, 1])
})

test('identities are saved with the states, so that a start does not need the directory; purged ones are gone', async (t) => {
  const { database } = newDatabase(t)
  const states = new RepoStates(database)
  const identity = {
    did: did as Did, // only a name here
    handle: 'a.example.com' as Handle, // only a name here
    pdsUrl: 'https://pds.example.com',
    pdsHost: 'pds.example.com',
    signingKey: { curve: 'k256', point: new Uint8Array(33) },
    labelKey: undefined,
    labelerUrl: 'https://labels.example.com',
    fetchedAt: Date.now(),
  } satisfies Identity
  const save = async (): Promise<void> =>
    states.save(positionAt(7), { appliedSeq: 5, blockSeq: 4 }, Promise.resolve())
  states.identities.set(identity.did, identity)
  await save()
  assert.deepEqual(new RepoStates(database).identities.get(identity.did), identity)
  states.identities.set(identity.did, undefined)
  assert.equal(states.identities.get(identity.did), undefined)
  await save()
  assert.equal(new RepoStates(database).identities.get(identity.did), undefined)
})

test('when rows do not become durable nothing is saved', async (t) => {
  const { database } = newDatabase(t)
  const states = new RepoStates(database)
  states.set(did, { ...unknownRepo, rev: 'one' })
  await assert.rejects(
    states.save(positionAt(7), { appliedSeq: 5, blockSeq: 4 }, Promise.reject(new Error('the disk failed'))),
  )
  assert.equal(new RepoStates(database).position, undefined)
})

test('a data directory belongs to one process, and what it saves outlasts a power cut', (t) => {
  const { path, database } = newDatabase(t)
  assert.equal(database.pragma('synchronous', { simple: true }), 2, 'FULL')
  assert.throws(() => openStateDatabase(path), { name: 'DirectoryInUseError' })
})

test('a state of an older version does not say how far blocks reach, and the next save does', async (t) => {
  const { database } = newDatabase(t)
  database.exec(
    "INSERT INTO upstream (id, relay_url, epoch, cursor, epoch_began_ms, applied_seq) VALUES (1, 'ws://relay', 0, 7, 0, 5)",
  )
  const states = new RepoStates(database)
  assert.deepEqual(states.covered, { appliedSeq: 5, blockSeq: -1 })
  await states.save(positionAt(8), { appliedSeq: 6, blockSeq: 4 }, Promise.resolve())
  assert.deepEqual(new RepoStates(database).covered, { appliedSeq: 6, blockSeq: 4 })
})

test('a marked repository of a hidden account is not among those that are to be read again', async (t) => {
  const { database } = newDatabase(t)
  const states = new RepoStates(database)
  states.set(did, { ...unknownRepo, needsRefetch: true, isHidden: true })
  states.set('did:plc:b', { ...unknownRepo, needsRefetch: true })
  states.set('did:plc:c', unknownRepo)
  await states.save(positionAt(7), { appliedSeq: 5, blockSeq: 4 }, Promise.resolve())
  assert.equal(states.markedCount(), 1)
  // The relay is asked now and then whether its account is active again.
  assert.deepEqual(states.marked('', 10), [did, 'did:plc:b'])
})

test('marked repositories are counted up to a bound, because anybody may ask for the count', (t) => {
  const { database } = newDatabase(t)
  fill(database, markedMax + 5, 1)
  assert.equal(new RepoStates(database).markedCount(), markedMax)
})

test('a state that is used stays in memory, and one that is not leaves it', (t) => {
  const { database } = newDatabase(t)
  fill(database, 60_000, 0)
  const states = new RepoStates(database)
  const [used, unused] = [states.get('did:plc:1'), states.get('did:plc:2')]
  for (let n = 3; n <= 60_000; n++) {
    states.get(`did:plc:${n}`)
    assert.equal(states.get('did:plc:1'), used)
  }
  assert.notEqual(states.get('did:plc:2'), unused)
})
