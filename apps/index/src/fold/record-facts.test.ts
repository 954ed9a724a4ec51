/** Records state facts. `entries.test.ts` and `scope.test.ts` test what the index makes of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { feedCollections } from '@tributary/protocol'
import { cidOf, did } from '../../tests/scenario.ts'
import { readIssuers, readOwnActivities } from './record-facts.ts'

test('an activity that a collection lists several times is read once for each content', () => {
  const uri = `at://${did('A')}/${feedCollections.activity}/act`
  const [one, other] = [cidOf('one'), cidOf('other')]
  const items = [one, other, one].map((cid) => ({ itemIdentifier: { uri, cid } }))
  assert.deepEqual(readOwnActivities(did('A'), { items }), [
    { uri, cid: one },
    { uri, cid: other },
  ])
})

test('of those whom a definition allows only DIDs that an account may have are kept', () => {
  const long = `did:web:${'a'.repeat(300)}`
  const allowedIssuers = ['x'.repeat(900_000), long, { did: long }, did('A'), { did: did('B') }]
  assert.deepEqual(readIssuers({ badgeType: 'endorsement', allowedIssuers }), new Set([did('A'), did('B')]))
})
