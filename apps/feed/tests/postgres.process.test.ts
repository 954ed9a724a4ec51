/**
 * The feed's tests once more, with a PostgreSQL database in place of the embedded one. What is refused before a database is
 * asked is left to the conformance cases.
 */
import { join } from 'node:path'
import { test } from 'node:test'
import { openIndexWriter } from '@tributary/index-store'
import { testOnPostgres } from '@tributary/testkit'

const files = [
  'tests/actor.test.ts',
  'tests/hydration.test.ts',
  'tests/paging.test.ts',
  'tests/scope.test.ts',
]

test('what holds on the embedded database holds on PostgreSQL', async () => {
  await testOnPostgres(
    async (url) => (await openIndexWriter(url))[Symbol.asyncDispose](),
    files.map((file) => join(import.meta.dirname, '..', file)),
  )
})
