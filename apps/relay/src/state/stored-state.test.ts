/** What is written besides the accounts themselves, and read again. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Identity } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import Database from 'better-sqlite3'
import { DatabaseWriter } from './database-writer.ts'
import { prepare } from './schema.ts'
import { openStateFile, StateStore } from './state-store.ts'
import { StateTrail } from './state-trail.ts'
import type { StateWrite } from './state-write.ts'

const did = (n: number): Did => `did:plc:${String(n).padStart(24, 'a')}` as Did // of the right form

function storeOf(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'stored-state-'))
  const path = join(directory, 'state.sqlite')
  const open: StateStore[] = []
  t.after(async () => {
    for (const store of open) await store.close()
    rmSync(directory, { recursive: true })
  })
  return {
    path,
    open: (): StateStore => {
      const store = new StateStore(path)
      open.push(store)
      return store
    },
    write: async (store: StateStore, rows: Partial<StateWrite>): Promise<void> => {
      store.write({
        appliedSeq: 1,
        forgotten: [],
        accounts: [],
        collections: [],
        sources: [],
        identities: [],
        ...rows,
      })
      await store.whenWritten()
    },
  }
}

test('an identity that was purged is not read back: before the write, during it, after it, and after a start', async (t) => {
  const { open, write } = storeOf(t)
  const store = open()
  const { identities } = store
  store.accounts.assign(store.accounts.take(did(1)), 1, 'active')
  const identity = {
    did: did(1),
    fetchedAt: Date.now(),
    signingKey: { curve: 'k256', point: Buffer.alloc(33, 2) },
  }
  identities.set(did(1), identity as unknown as Identity) // as far as it is looked at
  await write(store, { identities: identities.take() })
  await write(store, { identities: identities.take() })
  assert.equal(identities.get(did(1))?.did, did(1), 'from the database')
  identities.set(did(1), undefined)
  assert.equal(identities.get(did(1)), undefined)
  const purge = identities.take()
  assert.equal(identities.get(did(1)), undefined)
  await write(store, { identities: purge })
  assert.deepEqual(identities.take(), [])
  assert.equal(identities.get(did(1)), undefined)
  assert.equal(open().identities.get(did(1)), undefined)
})

test('identities are stored of accounts that a source has spoken for, however many others hosts name', async (t) => {
  const { path, open } = storeOf(t)
  const store = open()
  const trail = new StateTrail(store, () => [])
  store.accounts.assign(store.accounts.take(did(1)), 1, 'active')
  store.accounts.take(did(2))
  for (const each of [did(1), did(2), did(3)])
    store.identities.set(each, { did: each, fetchedAt: Date.now() } as Identity) // as far as it is looked at
  await trail.close()
  await store.whenWritten()
  const db = new Database(path)
  t.after(() => db.close())
  assert.deepEqual(db.prepare('SELECT did FROM identity').pluck().all(), [did(1)])
})

test('a commit of many collections is one text for the thread, and each of them counts and is stored', async (t) => {
  const { path } = storeOf(t)
  const writer = new DatabaseWriter()
  const file = openStateFile(path, writer)
  let texts = 0
  const write = async (rows: StateWrite): Promise<boolean> => {
    texts += rows.collections.length
    return await file.write(rows)
  }
  const store = new StateStore({ ...file, write, close: async () => await writer.close() })
  t.after(async () => await store.close())
  const trail = new StateTrail(store, () => [])
  const account = store.accounts.take(did(1))
  store.accounts.assign(account, 1, 'active')
  const names = Array.from({ length: 200 }, (_, n) => `org.impact.n${n}`)
  const commits = 100_000 / names.length
  for (let seq = 1; seq <= commits; seq++) trail.push(seq, account, names)
  assert.equal(trail.isFull, true)
  trail.durable(trail.newestSeq)
  await trail.close()
  await store.whenWritten()
  assert.equal(texts, commits)
  for (const name of names) assert.equal(store.listReposByCollection(name, '', 1).repos.length, 1)
})

test('an account that was deleted is listed with what it wrote since, though it was back before that was stored', async (t) => {
  const { open } = storeOf(t)
  const store = open()
  const trail = new StateTrail(store, () => [])
  const account = store.accounts.take(did(1))
  const say = (status: string, collections?: string[]): void => {
    store.accounts.assign(account, 1, status)
    trail.push(trail.newestSeq + 1, account, collections)
  }
  const written = async (): Promise<string[]> => {
    trail.durable(trail.newestSeq)
    trail.flush()
    await store.whenWritten()
    return ['a.b.c', 'a.b.d', 'a.b.e'].filter(
      (name) => store.listReposByCollection(name, '', 10).repos.length > 0,
    )
  }
  say('active', ['a.b.c', 'a.b.d'])
  assert.deepEqual(await written(), ['a.b.c', 'a.b.d'])
  say('active', ['a.b.e'])
  say('deleted')
  say('active', ['a.b.d'])
  assert.deepEqual(await written(), ['a.b.d'])
  say('deleted')
  await written()
  say('active')
  assert.deepEqual(await written(), [])
  await trail.close()
})

test('accounts that wait for a slot wait in the same order after a start', async (t) => {
  const { open, write } = storeOf(t)
  const store = open()
  const rows = new Set<number>()
  for (const [n, throttledAtMs] of [3000, 1000, 2000].entries()) {
    const account = store.accounts.take(did(n))
    store.accounts.assign(account, 1, 'active')
    store.accounts.restore(account, throttledAtMs)
    rows.add(account.row)
  }
  await write(store, { accounts: [store.accounts.pack(rows)] })
  const { accounts } = open()
  assert.deepEqual(
    accounts.throttledOf(1, 9).map(({ throttledAtMs }) => throttledAtMs),
    [1000, 2000, 3000],
  )
})

test('a write that may be lost by a power cut leaves the log what it keeps', async () => {
  const db = new Database(':memory:')
  prepare(db)
  const synced = [true, false]
  const store = new StateStore({
    db,
    nowMs: () => 0,
    write: () => Promise.resolve(synced.shift() === true),
  })
  for (const appliedSeq of [3, 5]) {
    store.write({ appliedSeq, forgotten: [], accounts: [], collections: [], sources: [], identities: [] })
    await store.whenWritten()
  }
  assert.equal(store.syncedSeq, 3)
  await store.close()
})
