import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { newAccount } from '../../tests/sample-account.ts'
import { forgetOldBreaks, heldBackSince, heldBackUntilMs } from './breaks.ts'

const dayMs = 86_400_000

test('an account that broke its chain too often by a clock that was ahead is held back for a day at most', () => {
  const account = newAccount('did:plc:a' as Did) // only a name here
  const nowMs = 1000 * dayMs
  account.breaks = heldBackSince(nowMs + 300 * dayMs)
  assert.equal(heldBackUntilMs(account, nowMs), nowMs + dayMs + 1)
  assert.equal(forgetOldBreaks(account, nowMs), false)
  assert.equal(forgetOldBreaks(account, nowMs + dayMs + 1), true)
})
