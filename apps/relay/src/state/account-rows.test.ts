import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Did } from '@tributary/protocol'
import { AccountTable } from './account-table.ts'

const plc = (n: number): Did => `did:plc:${String(n).padStart(24, 'a')}` as Did // of the right form
const web = (n: number): Did => `did:web:host-${n}.example` as Did // of the right form
const anyDid = fc.integer({ min: 0, max: 40 }).map((n) => (n % 3 === 0 ? web(n) : plc(n)))

// A failure prints its seed and path; pass them here to run it again: fc.assert(…, { ...fuzz, seed, path }).
const fuzz = { numRuns: 300 }

test('accounts are found by their DID whatever came and went before, and rows are given out again', () => {
  const change = fc.record({ did: anyDid, isForgotten: fc.boolean(), count: fc.integer({ min: 1, max: 9 }) })
  fc.assert(
    fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
      const table = new AccountTable()
      const expected = new Map<Did, number>()
      for (const { did, isForgotten, count } of changes) {
        const known = table.get(did)
        assert.equal(known?.underWay, expected.get(did))
        if (isForgotten && known) {
          table.forget(known)
          expected.delete(did)
        } else if (!isForgotten) {
          table.take(did).underWay = count
          expected.set(did, count)
        }
      }
      assert.equal(table.size, expected.size)
      for (const [did, count] of expected) assert.deepEqual(table.get(did)?.underWay, count)
    }),
    fuzz,
  )
})

test('a table of many accounts finds each of them', () => {
  const table = new AccountTable()
  for (let n = 0; n < 30_000; n++) table.assign(table.take(plc(n)), n + 1, 'active')
  for (let n = 0; n < 30_000; n++) assert.equal(table.get(plc(n))?.sourceId, n + 1)
  assert.equal(table.get(plc(30_000)), undefined)
  assert.deepEqual([table.size, table.known], [30_000, 30_000])
})

test('all who hold an account see the same, and one that was forgotten is nobody else', () => {
  const table = new AccountTable()
  const [first, again] = [table.take(plc(1)), table.take(plc(1))]
  first.isIncomplete = true
  assert.ok(again.isIncomplete)
  table.forget(first)
  const next = table.take(plc(2))
  again.rev = undefined
  again.upstreamStatus = 'deleted'
  first.isIncomplete = true
  assert.deepEqual([next.upstreamStatus, next.isIncomplete], ['active', false])
  assert.deepEqual([again.did, again.upstreamStatus], [plc(1), 'deleted'])
  table.assign(next, 5, 'active')
  table.forget(next)
  assert.equal(table.get(plc(2))?.sourceId, 5)
})

test('accounts that are not just active and whole are found among all, in steps', () => {
  const table = new AccountTable()
  for (let n = 0; n < 5000; n++) table.assign(table.take(plc(n)), 1, n % 1000 === 7 ? 'made-up' : 'active')
  table.take(plc(3000)).isIncomplete = true
  table.take(plc(3001)).localStatus = 'takendown'
  const found: (readonly [Did, string])[] = []
  let steps = 0
  for (let at: number | undefined = 0; at !== undefined; steps++) {
    const step = table.exceptional(at, 900)
    found.push(...step.found.map(({ did, upstreamStatus }) => [did, upstreamStatus] as const))
    at = step.next
  }
  const madeUp = (n: number) => [plc(n), 'made-up']
  assert.deepEqual(found, [
    ...[7, 1007, 2007].map(madeUp),
    [plc(3000), 'active'],
    [plc(3001), 'active'],
    ...[3007, 4007].map(madeUp),
  ])
  assert.equal(steps, 6)
  assert.deepEqual(
    Array.from(table.hidden(), ({ did }) => did),
    [plc(3001)],
  )
})

test('forgetting an account twice forgets no other, and nothing of it is stored', () => {
  const table = new AccountTable()
  const first = table.take(plc(1))
  const { row } = first
  table.forget(first)
  assert.equal(table.pack(new Set([row])).bytes.length, 0)
  const next = table.take(plc(2))
  assert.equal(next.row, row)
  table.forget(first)
  assert.equal(table.get(plc(2)), next)
  assert.ok(table.pack(new Set([row])).bytes.length > 0)
})
