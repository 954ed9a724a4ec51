import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { countStatuses } from './account-statuses.ts'
import { AccountTable } from './state/account-table.ts'

test('accounts are counted by status in pieces, and others have their turn in between', async () => {
  const accounts = new AccountTable()
  for (let i = 0; i < 35_000; i++) {
    const account = accounts.take(`did:plc:${i}` as Did) // any name does
    accounts.assign(account, 1, i % 2 === 0 ? 'active' : i % 3 === 0 ? 'deleted' : 'made-up')
  }
  accounts.take('did:plc:unknown' as Did) // any name does
  let turns = 0
  let ticking = setImmediate(function tick() {
    turns++
    ticking = setImmediate(tick)
  })
  const counts = await countStatuses(accounts)
  clearImmediate(ticking)
  assert.deepEqual(
    counts,
    new Map([
      ['inactive', 11_667],
      ['deleted', 5833],
      ['active', 17_500],
    ]),
  )
  assert.ok(turns >= 3, `${turns} turns`)
})
