/** The operator changes what is watched while the stream runs, as it is seen over the wire. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startPlc, startScriptedHost } from '@tributary/testkit'
import { EventReader } from './event-reader.ts'
import { operate, startTestStream } from './start-test-stream.ts'

const [first, second] = ['org.impact.collection', 'org.hyperboards.board']

for (const verify of ['full', 'off'] as const)
  test(`verify=${verify}: a collection is kept from its addition on and until its removal, also over a restart, and markers always`, async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'collections-'))
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    const settings = {
      dataDirectory: directory.path,
      relayUrl: host.url.replace('http', 'ws'),
      plcUrl: plc.url,
      collections: [first],
      verify,
    }
    const account = await host.createAccount()
    const expected = ['identity', 'account', 'sync']
    const until = async (url: string, ...rows: string[]): Promise<void> => {
      expected.push(...rows)
      using reader = await EventReader.open(url, { cursor: 0 })
      await reader.until(() => reader.messages.length >= expected.length)
      const seen = reader.messages.map(({ $type, collection, rkey }) =>
        typeof collection === 'string' ? `${collection}/${String(rkey)}` : $type.split('#')[1],
      )
      assert.deepEqual(seen, expected)
    }
    {
      await using stream = await startTestStream(settings)
      account.create(second, {}, 'before')
      account.create(first, {}, 'a')
      await until(stream.url, `${first}/a`)
      const added = await operate(stream, 'addCollection', { collection: second, actor: 'ann' })
      assert.deepEqual([added.status, added.body['revision']], [200, 2])
      account.create(second, {}, 'b')
      await until(stream.url, `${second}/b`)
    }
    await using stream = await startTestStream(settings)
    account.create(second, {}, 'c')
    await until(stream.url, `${second}/c`)
    const removed = await operate(stream, 'removeCollection', { collection: first })
    assert.deepEqual([removed.status, removed.body['revision']], [200, 3])
    account.create(first, {}, 'd')
    account.create(second, {}, 'e')
    account.announceIdentity()
    await until(stream.url, `${second}/e`, 'identity')
    using reader = await EventReader.open(stream.url, { collections: [first, second] })
    await reader.until(() => reader.messages.length > 0)
    assert.deepEqual(reader.messages[0]?.['collections'], [first])
  })

test('changes of what is watched are refused by name, made once for each key, and audited', async () => {
  await using stream = await startTestStream({ collections: [first] })
  const ask = async (method: string, input: object): Promise<unknown[]> => {
    const { status, body } = await operate(stream, method, input)
    return [status, body['error'] ?? body['revision']]
  }
  assert.deepEqual(await ask('addCollection', { collection: 'org.impact.*' }), [400, 'InvalidRequest'])
  assert.deepEqual(await ask('addCollection', { collection: first }), [400, 'CollectionWatched'])
  assert.deepEqual(await ask('removeCollection', { collection: second }), [400, 'CollectionNotWatched'])
  const stale = { collection: second, expectedRevision: 7 }
  assert.deepEqual(await ask('addCollection', stale), [409, 'RevisionConflict'])
  assert.deepEqual(await ask('removeCollection', { ...stale, collection: first }), [409, 'RevisionConflict'])
  const change = { collection: second, actor: 'ann', idempotencyKey: 'key', expectedRevision: 1 }
  assert.deepEqual(await ask('addCollection', change), [200, 2])
  assert.deepEqual(await ask('addCollection', change), [200, 2])
  const other = { ...change, collection: 'org.impact.other' }
  assert.deepEqual(await ask('addCollection', other), [409, 'IdempotencyKeyReused'])
  assert.deepEqual(await ask('removeCollection', { collection: first }), [200, 3])

  const { body } = await operate(stream, 'listCollections')
  const { revision, collections } = body as { revision: number; collections: Record<string, unknown>[] } // as its lexicon says
  assert.deepEqual(
    [revision, collections.map(({ collection, addedRevision, actor }) => [collection, addedRevision, actor])],
    [3, [[second, 2, 'ann']]],
  )
  const audit = (await operate(stream, 'listAudit')).body['audit'] as Record<string, unknown>[] // as its lexicon says
  assert.deepEqual(
    audit.map(({ operation, actor, subject }) => [operation, actor, subject]),
    [
      ['removeCollection', 'operator', first],
      ['addCollection', 'ann', second],
    ],
  )
})
