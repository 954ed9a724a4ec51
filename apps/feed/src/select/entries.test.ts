import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openIndexWriter } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { sql } from 'kysely'
import { entriesOf, type Selection } from './entries.ts'

const selection: Selection = {
  viewer: 'did:plc:viewer' as Did, // DID syntax
  evaluators: [],
  labelers: ['did:plc:labeler' as Did], // DID syntax
  limit: 21,
  now: 0n,
}
const after = { feedTime: 1n, uri: 'at://did:plc:alice/a.b.c/1' }
const quality = { allowed: ['draft'], includeUnrated: true }

/** Each reads an account's entries in feed order, so that a run can be left early, and never a whole table. */
const plans: readonly {
  readonly what: string
  readonly more: Partial<Selection>
  readonly search: string
}[] = [
  { what: 'the first page', more: {}, search: 'entriesByAuthor (did=? AND (feedTime,uri)<(?,?))' },
  { what: 'a later page', more: { after }, search: 'entriesByAuthor (did=? AND (feedTime,uri)<(?,?))' },
  {
    what: 'a page with a quality rule',
    more: { after, quality },
    search: 'entriesByAuthor (did=? AND (feedTime,uri)<(?,?))',
  },
  {
    what: 'a page of some kinds',
    more: { kinds: ['cert.create', 'update.create'] },
    search: 'entriesByAuthorAndKind (did=? AND kind=? AND (feedTime,uri)<(?,?))',
  },
]

for (const { what, more, search } of plans) {
  test(`${what} is read by the index that holds each account's entries in feed order`, async () => {
    await using index = await openIndexWriter(':memory:')
    const explained = sql<{ detail: string }>`explain query plan ${entriesOf({ ...selection, ...more })}`
    const steps = (await explained.execute(index.db)).rows.map(({ detail }) => detail)
    assert.ok(steps.includes(`SEARCH entries USING COVERING INDEX ${search}`), steps.join('\n'))
    const scanned = steps.filter((step) => /^SCAN (?!json_each|scope)/.test(step))
    assert.deepEqual(scanned, [])
  })
}
