import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { prepare } from './schema.ts'
import { StateStore } from './state-store.ts'

const collection = 'org.impact.collection'

/** A store of accounts that are gone, with a last one that is active. */
async function storeOf(gone: number): Promise<{ store: StateStore; remove: () => Promise<void> }> {
  const directory = mkdtempSync(join(tmpdir(), 'list-repos-'))
  const path = join(directory, 'state.sqlite')
  const db = new Database(path)
  prepare(db)
  const account = db.prepare(`INSERT INTO account VALUES (?, 1, ?, '3laaaaaaaaaaa', ?, ?, 0, NULL, 0, NULL)`)
  const listed = db.prepare('INSERT INTO repo_collection VALUES (?, ?)')
  const digest = Buffer.alloc(32)
  db.transaction(() => {
    for (let i = 0; i <= gone; i++) {
      const did = `did:plc:a${String(i).padStart(5, '0')}`
      account.run(did, i === gone ? 'active' : 'takendown', digest, digest)
      listed.run(collection, did)
    }
    // A collection is known of an account before the account is stored.
    for (let i = 1; i <= gone; i++) listed.run(collection, `did:plc:b${String(i).padStart(5, '0')}`)
  })()
  db.close()
  const store = new StateStore(path)
  return {
    store,
    async remove() {
      await store.close()
      rmSync(directory, { recursive: true })
    },
  }
}

test('a page looks at a bounded number of accounts, and a caller who goes on finds those that are listed', async (t) => {
  const { store, remove } = await storeOf(12_000)
  t.after(remove)
  const pagesOf = (page: (cursor: string) => { repos: { did: string }[]; cursor?: string }) => {
    const sizes: number[] = []
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const { repos, cursor: next } = page(cursor)
      sizes.push(repos.length)
      cursor = next
    }
    return sizes
  }
  assert.deepEqual(
    pagesOf((cursor) => store.listRepos(cursor, 500)),
    [0, 0, 1],
  )
  assert.deepEqual(
    pagesOf((cursor) => store.listReposByCollection(collection, cursor, 500)),
    [0, 0, 1, 0, 0],
  )
})
