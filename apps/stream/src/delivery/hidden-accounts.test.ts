import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { type Row, rowKind } from '@tributary/segment'
import { HiddenAccounts } from './hidden-accounts.ts'

function accountRow(seq: number, active: boolean): Row {
  const payload = encode({ active, ...(!active && { status: 'deactivated' }) })
  const of = { did: 'did:plc:a', collection: '', rkey: '', rev: '' }
  return { ...of, seq, kind: rowKind.account, witnessedAt: 1, indexedAt: 0, payload }
}

test('a row that is older than what is known of its account changes nothing, and a newer one does', () => {
  const hidden = new HiddenAccounts([], 5)
  hidden.note(accountRow(5, false))
  assert.equal(hidden.has('did:plc:a'), false)
  hidden.note(accountRow(6, false))
  assert.equal(hidden.has('did:plc:a'), true)
  hidden.note(accountRow(7, true))
  assert.equal(hidden.has('did:plc:a'), false)
})
