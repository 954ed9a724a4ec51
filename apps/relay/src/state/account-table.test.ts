import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { AccountTable } from './account-table.ts'

const did = (n: number): Did => `did:plc:${String(n).padStart(24, 'a')}` as Did // of the right form

function tableOf(accounts: number, quota: number): AccountTable {
  const table = new AccountTable()
  table.quotaOf = () => quota
  for (let n = 0; n < accounts; n++) table.assign(table.take(did(n)), 1, 'active')
  return table
}

test('accounts over the quota of their source are left out, longest waiting first in line', () => {
  const table = tableOf(5, 3)
  assert.equal(table.activeOf(1), 3)
  assert.deepEqual(
    table.throttledOf(1, 9).map((account) => account.did),
    [did(3), did(4)],
  )
})

test('a slot is given back by deactivation, deletion and moving, and each time somebody is told', () => {
  const table = tableOf(4, 3)
  const freed: number[] = []
  table.onSlotFreed((sourceId) => freed.push(sourceId))
  table.assign(table.take(did(0)), 1, 'deactivated')
  table.assign(table.take(did(1)), 2, 'active')
  assert.deepEqual(freed, [1, 1])
  assert.equal(table.activeOf(1), 1)
  assert.equal(table.activeOf(2), 1)
})

test('an account that comes back when no slot is free is left out, and admitted when it is', () => {
  const table = tableOf(3, 3)
  const account = table.take(did(0))
  table.assign(account, 1, 'deactivated')
  table.assign(table.take(did(9)), 1, 'active')
  table.assign(account, 1, 'active')
  assert.ok(account.throttledAtMs > 0)
  assert.equal(table.activeOf(1), 3)
  table.admit(account)
  assert.equal(account.throttledAtMs, 0)
  assert.equal(table.activeOf(1), 4)
  assert.equal(table.throttledCountOf(1), 0)
})

test('an account that is left out and goes away frees no slot and waits for none', () => {
  const table = tableOf(4, 3)
  let freed = 0
  table.onSlotFreed(() => freed++)
  table.assign(table.take(did(3)), 1, 'deleted')
  assert.equal(freed, 0)
  assert.equal(table.throttledCountOf(1), 0)
})

test('an account that has departed holds no slot and waits for none, until its source speaks for it again', () => {
  const table = tableOf(4, 2)
  const freed: number[] = []
  table.onSlotFreed((sourceId) => freed.push(sourceId))
  const [holder, waiting] = [table.take(did(0)), table.take(did(2))]
  assert.deepEqual([table.depart(holder), table.depart(waiting), table.depart(holder)], [true, true, false])
  assert.deepEqual([freed, table.activeOf(1)], [[1], 1])
  assert.deepEqual(
    table.throttledOf(1, 9).map((account) => account.did),
    [did(3)],
  )
  for (const account of [holder, waiting]) table.assign(account, 1, 'active')
  assert.deepEqual([holder.throttledAtMs, table.activeOf(1), table.throttledCountOf(1)], [0, 2, 2])
})

test('a source brings in a bounded number of accounts without a slot, and those that get one as long as there are any', () => {
  const table = tableOf(103, 3)
  assert.equal(table.throttledCountOf(1), 100)
  assert.ok(!table.hasPlaceFor(1, true))
  assert.ok(!table.hasPlaceFor(1, false))
  assert.ok(table.hasPlaceFor(2, true))
  // A slot that is free is anybody's, however many are known without one.
  table.assign(table.take(did(0)), 1, 'deactivated')
  assert.ok(table.hasPlaceFor(1, true))
  assert.ok(!table.hasPlaceFor(1, false))
  for (let n = 3; n < 13; n++) table.assign(table.take(did(n)), 2, 'active')
  assert.ok(table.hasPlaceFor(1, false))
  table.quotaOf = () => 1000
  assert.ok(table.hasPlaceFor(2, false))
})

test('a source without slots brings in a hundred accounts, and not one more', () => {
  const table = new AccountTable()
  table.quotaOf = () => 0
  let count = 0
  for (; count < 200 && table.hasPlaceFor(1, false); count++)
    table.assign(table.take(did(count)), 1, 'deactivated')
  assert.equal(count, 100)
})
