import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { ApiKeys } from './api-keys.ts'

test('a key that was revoked is refused, also when the settings still name it at the next start', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const keys = new ApiKeys(database)
  const entries = ['one:first-secret', 'two:second-secret']
  keys.seed(entries, 1)
  assert.equal(keys.authenticate('Bearer first-secret'), 'one')
  database.exec(`UPDATE api_keys SET revoked_at_ms = 2 WHERE name = 'one'`)
  const refusal = { status: 401, error: 'AuthenticationRequired' }
  assert.throws(() => keys.authenticate('Bearer first-secret'), refusal)
  keys.seed(entries, 3)
  assert.throws(() => keys.authenticate('Bearer first-secret'), refusal)
  assert.equal(keys.authenticate('Bearer second-secret'), 'two')
})
