import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { answersMax, ApiKeys } from './api-keys.ts'

const refusal = { status: 401, error: 'AuthenticationRequired' }

function databaseFor(t: TestContext) {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  return database
}

test('a key of the settings is known by its owner, and nothing but the key is taken for it', (t) => {
  const keys = new ApiKeys(databaseFor(t), ['one:first-secret', 'two:second:secret'])
  assert.equal(keys.authenticate('Bearer first-secret').owner, 'one')
  assert.equal(keys.authenticate('Bearer second:secret').owner, 'two')
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

test('a key of the settings that was revoked stays so, and one that they no longer name is gone', (t) => {
  const database = databaseFor(t)
  const open = (...settings: string[]) => new ApiKeys(database, settings)
  const keys = open('one:first-secret', 'two:other-secret')
  keys.revoke(keys.authenticate('Bearer first-secret').id, Date.now())
  keys.reload()
  for (const again of [keys, open('one:first-secret', 'two:other-secret')]) {
    assert.throws(() => again.authenticate('Bearer first-secret'), refusal)
    assert.equal(again.authenticate('Bearer other-secret').owner, 'two')
  }
  const without = open('one:first-secret')
  assert.throws(() => without.authenticate('Bearer other-secret'), refusal)
  assert.deepEqual(
    without.list().map(({ owner }) => owner),
    ['one'],
  )
})

test('a key that was revoked opens nothing when the settings leave it out and name it again, or the clock is set back', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1e12 })
  const database = databaseFor(t)
  const keys = new ApiKeys(database, ['one:first-secret'])
  keys.revoke(keys.authenticate('Bearer first-secret').id, Date.now())
  keys.reload()
  t.mock.timers.setTime(1e12 - 3_600_000)
  assert.throws(() => keys.authenticate('Bearer first-secret'), refusal)
  t.mock.timers.setTime(1e12)
  assert.equal(new ApiKeys(database, []).list().length, 1)
  const again = new ApiKeys(database, ['one:first-secret'])
  assert.throws(() => again.authenticate('Bearer first-secret'), refusal)
})

test('a key that the settings leave out is refused from the start on, though it was to be good for a while after its rotation', (t) => {
  const database = databaseFor(t)
  const keys = new ApiKeys(database, ['one:first-secret'])
  keys.revoke(keys.authenticate('Bearer first-secret').id, Date.now() + 86_400_000)
  keys.reload()
  assert.equal(keys.authenticate('Bearer first-secret').owner, 'one')
  assert.throws(() => new ApiKeys(database, []).authenticate('Bearer first-secret'), refusal)
})

test('a key that was revoked, or whose time was over, opens nothing after a start with a clock that was set back', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1e12 })
  const database = databaseFor(t)
  const settings = ['one:first-secret', 'two:other-secret']
  const keys = new ApiKeys(database, settings)
  keys.revoke(keys.authenticate('Bearer first-secret').id, Date.now())
  keys.revoke(keys.authenticate('Bearer other-secret').id, Date.now() + 1000)
  keys.reload()
  t.mock.timers.tick(1000)
  assert.throws(() => keys.authenticate('Bearer other-secret'), refusal)
  t.mock.timers.setTime(1e12 - 3_600_000)
  const again = new ApiKeys(database, settings)
  for (const key of ['first-secret', 'other-secret'])
    assert.throws(() => again.authenticate(`Bearer ${key}`), refusal)
})

test('a created key opens from the reload on, is stored as a digest only, and is revoked at its time', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1e12 })
  const database = databaseFor(t)
  const keys = new ApiKeys(database, [])
  const quota = { requestsPerHour: 0, megabytesPerDay: 0 }
  const { id, key } = keys.create('reader', 'ann', quota, Date.now())
  assert.throws(() => keys.authenticate(`Bearer ${key}`), refusal)
  keys.reload()
  assert.equal(keys.authenticate(`Bearer ${key}`).owner, 'reader')
  const stored = JSON.stringify(database.prepare('SELECT * FROM api_keys').all())
  assert.equal(stored.includes(key), false)
  keys.revoke(id, Date.now() + 1000)
  keys.reload()
  t.mock.timers.tick(999)
  assert.equal(keys.authenticate(`Bearer ${key}`).id, id)
  t.mock.timers.tick(1)
  assert.throws(() => keys.authenticate(`Bearer ${key}`), refusal)
  const since = Date.now()
  t.mock.timers.tick(1000)
  keys.revoke(id, Date.now())
  keys.reload()
  assert.equal(keys.list().find((each) => each.id === id)?.revokedAtMs, since)
})

test('requests of an hour and bytes of a day are limited for each key, and come back with time', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1e12 })
  let elapsedMs = 0
  const keys = new ApiKeys(databaseFor(t), [], () => elapsedMs)
  for (const owner of ['one', 'two'])
    keys.create(owner, 'ann', { requestsPerHour: 2, megabytesPerDay: 1 }, Date.now())
  keys.reload()
  const [one, two] = [keys.known(1), keys.known(2)]
  const refused = (seconds: number) => (error: Error & { headers?: Record<string, string> }) =>
    Number(error.headers?.['Retry-After']) > seconds - 120 &&
    Number(error.headers?.['Retry-After']) <= seconds + 120
  keys.takeRequest(one)
  keys.takeRequest(one)
  assert.throws(() => keys.takeRequest(one), { status: 429, error: 'RateLimitExceeded' })
  assert.throws(() => keys.takeRequest(one), refused(3600))
  keys.takeRequest(two)
  elapsedMs += 3_720_000
  // Whatever the clock is set to meanwhile.
  t.mock.timers.setTime(1e12 - 86_400_000)
  keys.takeRequest(one)
  keys.countBytes(one, 1_000_000)
  assert.throws(() => keys.takeRequest(one), { status: 429, error: 'RateLimitExceeded' })
  keys.setQuota(1, { requestsPerHour: 0, megabytesPerDay: 0 })
  keys.reload()
  for (let n = 0; n < 10; n++) keys.takeRequest(one)
  assert.deepEqual(
    keys.list().map(({ requestsLastHour, bytesLastDay }) => [requestsLastHour, bytesLastDay]),
    [
      [11, 1_000_000],
      [0, 0],
    ],
  )
})

test('a key with as many answers under way as it may have waits for one of them to end, and others do not', (t) => {
  const keys = new ApiKeys(databaseFor(t), ['one:first-secret', 'two:other-secret'])
  const [one, two] = ['first-secret', 'other-secret'].map((key) => keys.authenticate(`Bearer ${key}`))
  assert.ok(one && two)
  const ends = Array.from({ length: answersMax }, () => keys.beginAnswer(one))
  assert.throws(() => keys.beginAnswer(one), { status: 429, error: 'RateLimitExceeded' })
  keys.beginAnswer(two)
  ends[0]?.()
  keys.beginAnswer(one)
})
