/** The cases that a database decides, once more on PostgreSQL. */
import { join } from 'node:path'
import { test } from 'node:test'
import { testOnPostgres } from '@tributary/testkit'

const parts = [
  ['scope', 'unlabelled', 'failures'],
  ['quality', 'kinds-and-order', 'hydration'],
]

for (const names of parts) {
  test(`on PostgreSQL: ${names.join(', ')}`, async () => {
    // The index makes its tables when it starts.
    await testOnPostgres(
      async () => undefined,
      names.map((name) => join(import.meta.dirname, `${name}.test.ts`)),
    )
  })
}
