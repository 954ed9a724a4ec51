import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changeText } from './audit-command.ts'

test('an entry of the audit says in short what differs, or what is known of one side', () => {
  const before = { desired: 'enabled', quota: 7, budgets: [1], note: null }
  const after = { desired: 'paused', quota: 7, budgets: [1, 2], note: null }
  assert.equal(changeText({ before, after }), 'desired: enabled -> paused, budgets: [1] -> [1,2]')
  assert.equal(changeText({ before: {}, after: { reason: 'spam' } }), 'reason: none -> spam')
  assert.equal(changeText({ after: { reason: 'spam', count: 2 } }), 'reason: spam, count: 2')
  assert.equal(changeText({ before: { reason: 'spam' } }), 'reason was spam')
  assert.equal(changeText({}), '')
})
