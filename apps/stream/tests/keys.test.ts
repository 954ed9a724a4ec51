/** Keys of the archive, as their owners and operators see them. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { apiKey, operate, startTestStream, type TestStream } from './start-test-stream.ts'

async function statusWith(stream: TestStream, key: unknown): Promise<number> {
  const headers = { Authorization: `Bearer ${String(key)}` }
  return (await stream.archive('listSegments', { headers })).status
}

test('a key is created and shown once, rotated with a while for the change, and revoked, over restarts', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'keys-'))
  const settings = { dataDirectory: directory.path }
  let rotated: unknown
  {
    await using stream = await startTestStream(settings)
    const request = { owner: 'reader', actor: 'ann', idempotencyKey: 'create' }
    const created = (await operate(stream, 'createKey', request)).body
    assert.equal(created['id'], 2)
    assert.equal(await statusWith(stream, created['key']), 200)
    // Nobody learns the key by asking again, or from what is stored of the request.
    assert.deepEqual((await operate(stream, 'createKey', request)).body, { id: 2 })
    const seen = JSON.stringify([
      (await operate(stream, 'listKeys')).body,
      (await operate(stream, 'listAudit')).body,
    ])
    assert.equal(seen.includes(String(created['key'])), false)
    const graceful = (await operate(stream, 'rotateKey', { id: 2, graceSeconds: 600 })).body
    assert.deepEqual(
      [await statusWith(stream, created['key']), await statusWith(stream, graceful['key'])],
      [200, 200],
    )
    const listed = (await operate(stream, 'listKeys')).body['keys'] as { revokedAt?: string }[] // by its lexicon
    const graceMs = Date.parse(listed[1]?.revokedAt ?? '') - Date.now()
    assert.ok(graceMs > 540_000 && graceMs <= 600_000, String(graceMs))
    rotated = (await operate(stream, 'rotateKey', { id: 3 })).body['key']
    assert.deepEqual(
      [await statusWith(stream, graceful['key']), await statusWith(stream, rotated)],
      [401, 200],
    )
    const again = await operate(stream, 'rotateKey', { id: 3 })
    assert.deepEqual([again.status, again.body['error']], [400, 'KeyRevoked'])
    assert.equal((await operate(stream, 'revokeKey', { id: 9 })).body['error'], 'KeyNotFound')
    assert.equal((await operate(stream, 'createKey', {})).body['error'], 'InvalidRequest')
    assert.equal((await operate(stream, 'revokeKey', { id: 1 })).status, 200)
    assert.equal(await statusWith(stream, apiKey), 401)
  }
  await using stream = await startTestStream(settings)
  assert.deepEqual([await statusWith(stream, apiKey), await statusWith(stream, rotated)], [401, 200])
  const { keys } = (await operate(stream, 'listKeys')).body as { keys: Record<string, unknown>[] } // by its lexicon
  assert.deepEqual(
    keys.map(({ id, owner, actor, revokedAt }) => [id, owner, actor, revokedAt !== undefined]),
    [
      [1, 'test', 'settings', true],
      [2, 'reader', 'ann', true],
      [3, 'reader', 'operator', true],
      [4, 'reader', 'operator', false],
    ],
  )
})

test('a change of a key that changes nothing is not in the audit, and one that names nothing is refused', async () => {
  await using stream = await startTestStream({})
  const { status, body } = await operate(stream, 'updateKey', { id: 1, actor: 'ann' })
  assert.equal(status, 400)
  assert.deepEqual(body, {
    error: 'InvalidRequest',
    message: 'give requestsPerHour, megabytesPerDay or both',
  })
  assert.deepEqual((await operate(stream, 'listAudit')).body['audit'], [])
  for (let n = 0; n < 2; n++)
    assert.equal((await operate(stream, 'updateKey', { id: 1, requestsPerHour: 2 })).status, 200)
  assert.equal(((await operate(stream, 'listAudit')).body['audit'] as object[]).length, 1) // rows are objects
})

test('a key over its quota is told when to come back, and others are not', async () => {
  await using stream = await startTestStream({})
  assert.equal((await operate(stream, 'updateKey', { id: 1, requestsPerHour: 2 })).status, 200)
  const other = (await operate(stream, 'createKey', { owner: 'other', requestsPerHour: 0 })).body['key']
  for (let n = 0; n < 2; n++) assert.equal(await statusWith(stream, apiKey), 200)
  const refused = await stream.archive('getSegment?name=seg_0000000000.jss')
  const body = (await refused.json()) as { error: string } // errors have one shape
  assert.deepEqual([refused.status, body.error], [429, 'RateLimitExceeded'])
  const seconds = Number(refused.headers.get('retry-after'))
  assert.ok(seconds > 3500 && seconds <= 3660, String(seconds))
  for (let n = 0; n < 5; n++) assert.equal(await statusWith(stream, other), 200)
})
