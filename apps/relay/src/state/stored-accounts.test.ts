import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import type { Did, Tid } from '@tributary/protocol'
import type { Digest } from '@tributary/repo-verify'
import { columns } from './account-row.ts'
import type { Account } from './account.ts'
import { prepare } from './schema.ts'
import { StateStore } from './state-store.ts'

const root = mkdtempSync(join(tmpdir(), 'stored-accounts-'))
after(() => rmSync(root, { recursive: true }))
// A failure prints its seed and path; pass them here to run it again: fc.assert(…, { ...fuzz, seed, path }).
const fuzz = { numRuns: 8 }

const letters = (from: string, length: number) =>
  fc.string({ unit: fc.constantFrom(...from.split('')), minLength: length, maxLength: length })
const base32 = 'abcdefghijklmnopqrstuvwxyz234567'
const digest = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('latin1') as Digest) // as digests are held
const did = fc.oneof(
  { weight: 4, arbitrary: letters(base32, 24).map((end) => `did:plc:${end}`) },
  letters(base32, 20).map((end) => `did:plc:${end}`),
  letters(base32, 9).map((name) => `did:web:${name}.example`),
)
const seldom = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 8 })
const plain = { noNullPrototype: true }
const anyAccount = fc.record(
  {
    did: did.map((text) => text as Did), // of the right form
    sourceId: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 2 ** 32 - 1 })),
    upstreamStatus: fc.oneof(
      fc.constantFrom('active', 'inactive', 'deactivated', 'deleted', 'suspended', 'takendown', 'throttled'),
      letters('abc-', 7),
    ),
    localStatus: fc.option(fc.constantFrom('takendown' as const, 'suspended' as const), {
      nil: undefined,
      freq: 2,
    }),
    throttledAtMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 42 })),
    rev: fc.option(
      letters(base32, 12).map((end) => `3${end}` as Tid), // of the right form
      { nil: undefined, freq: 8 },
    ),
    commit: seldom(digest),
    data: seldom(digest),
    wholeness: fc.constantFrom('whole', 'desynchronized', 'incomplete'),
    activeNote: fc.option(letters('abc', 3), { nil: undefined, freq: 2 }),
    breaks: fc.option(fc.record({ count: fc.nat(), sinceMs: fc.nat(), areTooMany: fc.boolean() }, plain), {
      nil: undefined,
      freq: 2,
    }),
    namedBy: fc.option(fc.integer({ min: 1, max: 2 ** 31 }), { nil: undefined, freq: 2 }),
    hasDeparted: fc.boolean(),
  },
  plain,
)
type AnyAccount = typeof anyAccount extends fc.Arbitrary<infer T> ? T : never

function shownOf(account: Account): Omit<AnyAccount, 'wholeness'> & { wholeness: string } {
  const { did, sourceId, upstreamStatus, localStatus, throttledAtMs, rev, commit, data } = account
  const { isDesynchronized, isIncomplete, activeNote, breaks, namedBy, hasDeparted } = account
  const wholeness = isIncomplete ? 'incomplete' : isDesynchronized ? 'desynchronized' : 'whole'
  const values = { did, sourceId, upstreamStatus, localStatus, throttledAtMs, rev, commit, data, wholeness }
  return { ...values, activeNote, breaks, namedBy, hasDeparted }
}

test('accounts are after a start what they were when they were written', async () => {
  let runs = 0
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(anyAccount, { selector: (account) => account.did, maxLength: 60 }),
      async (accounts) => {
        const path = join(root, `${runs++}.sqlite`)
        const before = new StateStore(path)
        const rows = new Set<number>()
        for (const { did, wholeness, ...values } of accounts) {
          const account = before.accounts.take(did)
          before.accounts.assign(account, values.sourceId, values.upstreamStatus)
          Object.assign(account, values)
          account.isDesynchronized = wholeness !== 'whole'
          account.isIncomplete = wholeness === 'incomplete'
          rows.add(account.row)
        }
        const rest = { forgotten: [], collections: [], sources: [], identities: [] }
        before.write({ appliedSeq: 7, accounts: [before.accounts.pack(rows)], ...rest })
        await before.close()
        const after = new StateStore(path)
        assert.deepEqual([after.appliedSeq, after.accounts.size], [7, accounts.length])
        for (const account of accounts) {
          const found = after.accounts.get(account.did)
          assert.ok(found, account.did)
          assert.deepEqual(shownOf(found), account)
        }
        await after.close()
      },
    ),
    fuzz,
  )
})

test('the columns of an account are those of the database', () => {
  const db = new Database(':memory:')
  prepare(db)
  const names = db.prepare<[], string>(`SELECT name FROM pragma_table_info('account')`).pluck().all()
  db.close()
  assert.deepEqual(names.toSorted(), columns.map(({ name }) => name).toSorted())
})

test('the state thread begins with the first write, and an account that nothing is known of is not kept', async () => {
  const path = join(root, 'strangers.sqlite')
  const store = new StateStore(path)
  const stranger = store.accounts.take('did:web:stranger.example' as Did) // of the right form
  const marked = store.accounts.take('did:web:marked.example' as Did) // of the right form
  marked.isIncomplete = true
  const rows = new Set([stranger.row, marked.row])
  const rest = { forgotten: [], collections: [], sources: [], identities: [] }
  store.write({ appliedSeq: 1, accounts: [store.accounts.pack(rows)], ...rest })
  await store.close()
  const after = new StateStore(path)
  assert.equal(after.accounts.get(stranger.did), undefined)
  assert.ok(after.accounts.get(marked.did)?.isIncomplete)
  await after.close()
})
