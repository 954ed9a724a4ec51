import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { type RawBuilder, sql } from 'kysely'
import { openIndexWriter } from '../open-index.ts'
import { compiled, sqliteDialect } from '../sqlite/dialect.ts'
import { accountsOf, entriesOf } from './entries.ts'
import type { Selection } from './selection.ts'

const selection: Selection = {
  viewer: 'did:plc:viewer' as Did, // DID syntax
  evaluators: [],
  labelers: ['did:plc:labeler' as Did], // DID syntax
  limit: 21,
  now: 0n,
}
const after = { feedTime: 1n, uri: 'at://did:plc:alice/a.b.c/1' }
const quality = { allowed: ['draft'], includeUnrated: true }
const byAuthor = 'entriesByAuthor (did=? AND feedTime>? AND (feedTime,uri)<(?,?))'

/** Each reads an account's entries in feed order, so that a run can be left early, and never a whole table. */
const plans: readonly {
  readonly what: string
  readonly more: Partial<Selection>
  readonly search: string
}[] = [
  { what: 'the first page', more: {}, search: byAuthor },
  { what: 'a later page', more: { after }, search: byAuthor },
  { what: 'a page with a quality rule', more: { after, quality }, search: byAuthor },
  {
    what: 'a page of some kinds',
    more: { kinds: ['cert.create', 'update.create'] },
    search: 'entriesByAuthorAndKind (did=? AND kind=? AND feedTime>? AND (feedTime,uri)<(?,?))',
  },
]

/** Those of the viewer, and of so many evaluators. */
function accountsWith(evaluators: number): RawBuilder<unknown> {
  const endorsements = Array.from({ length: evaluators }, (_, at) => ({
    table: 'endorsements' as const,
    from: `did:plc:evaluator${at}` as Did, // DID syntax
  }))
  return accountsOf({ dialect: sqliteDialect }, [
    { table: 'follows', from: selection.viewer },
    ...endorsements,
  ])
}

for (const { what, more, search } of plans) {
  test(`${what} is read by the index that holds each account's entries in feed order`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'plans-'))
    t.after(() => rmSync(directory, { recursive: true }))
    const path = join(directory, 'index.sqlite')
    await using _writer = await openIndexWriter(path)
    using sqlite = new DatabaseSync(path)
    const statement = entriesOf({ dialect: sqliteDialect }, { ...selection, ...more }, accountsWith(2), 5n)
    const { text, parameters } = compiled(sql`explain query plan ${statement}`)
    const explained = sqlite.prepare(text).all(...(parameters as SQLInputValue[])) // as the statement has them
    const steps = explained.map(({ detail }) => String(detail))
    for (const by of [
      `entries USING COVERING INDEX ${search}`,
      'follows USING COVERING INDEX followsByViewer (viewer=?)',
      'endorsements USING COVERING INDEX endorsementsByIssuer (issuer=?)',
    ])
      assert.ok(steps.includes(`SEARCH ${by}`), steps.join('\n'))
    const scanned = steps.filter((step) => /^SCAN (?!json_each|scope)/.test(step))
    assert.deepEqual(scanned, [])
  })
}

test('pages with any number of evaluators have one statement, which a connection keeps', () => {
  assert.equal(compiled(accountsWith(64)).text, compiled(accountsWith(0)).text)
})
