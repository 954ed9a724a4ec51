/**
 * The index's tests once more, with a PostgreSQL database in place of the embedded one. Those of parts that only call what
 * others here call are left out.
 */
import { join } from 'node:path'
import { test } from 'node:test'
import { openIndexWriter } from '@tributary/index-store'
import { testOnPostgres } from '@tributary/testkit'

const files = [
  'src/fold/accounts.test.ts',
  'src/fold/beside-turns.test.ts',
  'src/fold/earlier-places.fuzz.test.ts',
  'src/fold/entries.test.ts',
  'src/fold/fold.fuzz.test.ts',
  'src/fold/fold.test.ts',
  'src/fold/scope.test.ts',
  'src/fold/slices.test.ts',
  'src/generation/new-stream.test.ts',
  'src/generation/rebuild.test.ts',
  'src/generation/take-over.test.ts',
  'src/labels/label-store.test.ts',
  'src/serve/index-metrics.test.ts',
  'tests/rebuild.test.ts',
]

test('what holds on the embedded database holds on PostgreSQL', async () => {
  await testOnPostgres(
    async (url) => (await openIndexWriter(url))[Symbol.asyncDispose](),
    files.map((file) => join(import.meta.dirname, '..', file)),
  )
})
