import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiKeys } from './api-keys.ts'

test('a key is known by its name, and nothing but the key is taken for it', () => {
  const keys = new ApiKeys(['one:first-secret', 'two:second:secret'])
  assert.equal(keys.authenticate('Bearer first-secret'), 'one')
  assert.equal(keys.authenticate('Bearer second:secret'), 'two')
  const refusal = { status: 401, error: 'AuthenticationRequired' }
  for (const wrong of [
    undefined,
    '',
    'Bearer ',
    'Bearer first',
    'Basic first-secret',
    'Bearer one:first-secret',
  ])
    assert.throws(() => keys.authenticate(wrong), refusal)
})
