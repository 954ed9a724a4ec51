/** Every case once more, with index and spent tokens in PostgreSQL. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { testOnPostgres } from '@tributary/testkit'
import { caseCount } from './case.ts'

const parts = [
  'scope',
  'unlabelled',
  'failures',
  'quality',
  'kinds-and-order',
  'hydration',
  'request',
  'authentication',
  'token-store',
]

test('every case of the feed specification holds on PostgreSQL', async () => {
  // The index makes its tables when it starts.
  const passed = await testOnPostgres(
    async () => undefined,
    parts.map((name) => join(import.meta.dirname, `${name}.test.ts`)),
  )
  for (const title of passed) console.log(`on PostgreSQL, ${title}`)
  const numbers = passed.flatMap((title) => /^case (\d+):/.exec(title)?.[1] ?? []).map(Number)
  const all = Array.from({ length: caseCount }, (_, index) => index + 1)
  assert.deepEqual(
    numbers.toSorted((a, b) => a - b),
    all,
  )
})
