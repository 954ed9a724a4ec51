/** Every case once more, with index and spent tokens in PostgreSQL. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { testOnPostgres } from '@tributary/testkit'
import { caseCount } from './case.ts'

const parts = [
  ['scope', 'unlabelled', 'failures'],
  ['quality', 'kinds-and-order', 'hydration'],
  ['request', 'authentication', 'token-store'],
]
const passed: string[] = []

for (const names of parts) {
  test(`on PostgreSQL: ${names.join(', ')}`, async () => {
    // The index makes its tables when it starts.
    const titles = await testOnPostgres(
      async () => undefined,
      names.map((name) => join(import.meta.dirname, `${name}.test.ts`)),
    )
    for (const title of titles) console.log(`on PostgreSQL, ${title}`)
    passed.push(...titles)
  })
}

test('every case of the feed specification holds on PostgreSQL', () => {
  const numbers = passed.flatMap((title) => /^case (\d+):/.exec(title)?.[1] ?? []).map(Number)
  const all = Array.from({ length: caseCount }, (_, index) => index + 1)
  assert.deepEqual(
    numbers.toSorted((a, b) => a - b),
    all,
  )
})
