import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commitEvent } from '../../tests/sample-events.ts'
import { rowsOf } from './event-columns.ts'

test('an event that JSON cannot hold is left out, and those beside it are not', () => {
  const tooLarge = {
    toJSON() {
      throw new RangeError('Invalid string length')
    },
  }
  let tooDeep: unknown[] = []
  for (let depth = 0; depth < 100_000; depth++) tooDeep = [tooDeep]
  const { rows, malformed } = rowsOf([
    commitEvent(1, 'a', { a: 1 }),
    commitEvent(2, 'b', { tooLarge }),
    commitEvent(3, 'c', { tooDeep }),
    commitEvent(4, 'd', { a: 1 }),
  ])
  assert.deepEqual(
    rows.map(({ seq }) => seq),
    [1, 4],
  )
  assert.deepEqual(
    malformed.map(({ code, message }) => [code, message]),
    [2, 3].map((seq) => [
      'MalformedEvent',
      `the event of seq ${seq} is too large, or too deep, to make JSON of`,
    ]),
  )
})
