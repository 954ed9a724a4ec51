import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { Operations, operationsSchema } from './operations.ts'

function withOperations(run: (operations: Operations, database: Database.Database) => Promise<void>) {
  return async () => {
    const database = new Database(':memory:')
    try {
      database.exec(operationsSchema)
      await run(new Operations(database), database)
    } finally {
      database.close()
    }
  }
}

test(
  'a change that is asked for again with its key is made once, and the key is not taken for another',
  withOperations(async (operations) => {
    let made = 0
    const ask = (input: unknown, idempotencyKey = 'key') =>
      operations.run({ operation: 'count', actor: 'ann', idempotencyKey, input }, () => () => ({
        subject: 'it',
        before: { made },
        after: { made: ++made },
        output: { made },
      }))
    assert.deepEqual(await Promise.all([ask(1), ask(1)]), [{ made: 1 }, { made: 1 }])
    assert.deepEqual(await ask(1), { made: 1 })
    await assert.rejects(ask(2), { status: 409, error: 'IdempotencyKeyReused' })
    assert.deepEqual(await ask(2, 'other'), { made: 2 })
    assert.deepEqual(
      operations
        .audit(10)
        .map(({ actor, operation, before, after }) => ({ actor, operation, before, after })),
      [
        { actor: 'ann', operation: 'count', before: { made: 1 }, after: { made: 2 } },
        { actor: 'ann', operation: 'count', before: { made: 0 }, after: { made: 1 } },
      ],
    )
  }),
)

test(
  'a call that changes nothing leaves no audit row, and its key is known again',
  withOperations(async (operations) => {
    let answers = 0
    const ask = (input: unknown) =>
      operations.run({ operation: 'x', actor: 'ann', idempotencyKey: 'key', input }, () => () => ({
        subject: 's',
        isChanged: false,
        output: { answers: ++answers },
      }))
    assert.deepEqual([await ask(1), await ask(1)], [{ answers: 1 }, { answers: 1 }])
    await assert.rejects(ask(2), { error: 'IdempotencyKeyReused' })
    assert.deepEqual(operations.audit(10), [])
  }),
)

test(
  'a change that fails leaves no audit row, and one whose effect fails is tried again with the same key',
  withOperations(async (operations) => {
    const request = { operation: 'x', actor: 'ann', idempotencyKey: 'key', input: {} }
    const failing = operations.run(request, () => () => {
      throw new Error('no')
    })
    await assert.rejects(failing, /no/)
    assert.equal(operations.audit(10).length, 0)
    let effects = 0
    const effect = async () => {
      if (++effects === 1) throw new Error('not now')
    }
    const change = () => () => ({ subject: 's', output: {}, effect })
    await assert.rejects(operations.run(request, change), /not now/)
    await operations.run(request, change)
    await operations.run(request, change)
    assert.equal(effects, 2)
  }),
)

test(
  'a change for which the disk has no room is refused by name, and made when there is room',
  withOperations(async (operations, database) => {
    const request = { operation: 'x', actor: 'ann', idempotencyKey: 'key', input: {} }
    const change = () => () => ({ subject: 's'.repeat(100_000), output: {} })
    const [{ page_count: pages }] = database.pragma('page_count') as [{ page_count: number }] // as SQLite answers
    database.pragma(`max_page_count = ${pages}`)
    await assert.rejects(operations.run(request, change), { status: 503, error: 'DiskFull' })
    database.pragma(`max_page_count = ${pages + 1000}`)
    await operations.run(request, change)
    assert.equal(operations.audit(10).length, 1)
  }),
)
