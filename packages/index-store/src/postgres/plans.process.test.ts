/** How PostgreSQL finds what pages and writers look for. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually, Postgres } from '@tributary/testkit'
import { type RawBuilder, sql } from 'kysely'
import type pg from 'pg'
import { did, fill, selection, viewer } from '../../tests/filled-index.ts'
import { connectAs, createDatabase } from '../../tests/operator.ts'
import { openIndexWriter } from '../open-index.ts'
import type { Selection } from '../select/selection.ts'
import { recentOf } from '../select/window.ts'
import { activeLabels } from '../select/quality.ts'
import { awardStatesOf, namings, pageNaming } from '../write/classification.ts'
import { compiled, postgresDialect } from './dialect.ts'
import { pageOf } from './entries.ts'
import { planSettings } from './plan-settings.ts'

let server: Postgres
before(async () => {
  server = await Postgres.start()
})
after(() => server[Symbol.asyncDispose]())

const below = { feedTime: 1_000n, uri: 'at://did:plc:alice/a.b.c/1' }
const plans: Record<string, Partial<Selection>> = {
  'the first page': {},
  'a later page': { after: below },
  'a page with a quality rule': { after: below, quality: { allowed: ['draft'], includeUnrated: true } },
  'a page of one kind': { kinds: ['cert.create'] },
  'a page of some kinds': { kinds: ['cert.create', 'update.create'] },
}

/** The plan that a reader has of a statement, whatever its values are. */
async function planOf(operator: pg.Client, statement: RawBuilder<unknown>): Promise<string> {
  const { text } = compiled(statement)
  const { rows } = await operator.query<Record<string, unknown>>(`explain (generic_plan) ${text}`)
  return rows.map((row) => String(row['QUERY PLAN'])).join('\n')
}

test('pages are read by the indexes that hold each account in feed order, and no table is read whole', async () => {
  const url = await createDatabase(server, 'plans')
  await using writer = await openIndexWriter(url)
  const authors = Array.from({ length: 500 }, (_, index) => did(index))
  await fill(writer, {
    follows: authors.slice(0, 100).map((author) => ['follows', viewer, author]),
    entries: authors.flatMap((author) =>
      Array.from({ length: 40 }, (_, time): [typeof author, bigint] => [author, BigInt(time)]),
    ),
  })
  const operator = await connectAs(server, 'plans')
  await operator.query('analyze')
  await operator.query(['begin', ...planSettings].join(';'))
  for (const [what, more] of Object.entries(plans)) {
    const statement = pageOf({ dialect: postgresDialect }, { ...selection, ...more })
    const plan = await planOf(operator, statement)
    assert.match(plan, /Index Only Scan using "?entriesByAuthor/, `${what}:\n${plan}`)
    assert.doesNotMatch(plan, /Seq Scan on entries|hashed SubPlan|Hash Join/, `${what}:\n${plan}`)
  }
  await operator.end()
})

test('windows are read by the index of times, and their authors are looked up by the index of follows', async () => {
  const url = await createDatabase(server, 'window_plans')
  await using writer = await openIndexWriter(url)
  const authors = Array.from({ length: 5000 }, (_, index) => did(index))
  await fill(writer, {
    follows: authors.map((author) => ['follows', viewer, author]),
    entries: authors.flatMap((author, at) =>
      Array.from({ length: 4 }, (_, nth): [typeof author, bigint] => [author, BigInt(nth * 5000 + at)]),
    ),
  })
  const operator = await connectAs(server, 'window_plans')
  await operator.query('analyze')
  await operator.query(['begin', ...planSettings].join(';'))
  const byTime = /Index Only Scan using "entriesByTime"/
  const after = { ...below, feedTime: 15_000n }
  for (const [what, more] of Object.entries({
    ...plans,
    'a page with evaluators': { evaluators: [did(1)] },
  })) {
    const wanted = { ...selection, ...more, ...('after' in more && { after }) }
    const window = await planOf(operator, recentOf({ dialect: postgresDialect }, wanted, 1000))
    assert.match(window, byTime, `${what}:\n${window}`)
    assert.doesNotMatch(window, /hashed SubPlan|Hash Join/, `${what}:\n${window}`)
    assert.match(
      window,
      /Index Only Scan using "followsByViewer".*\n.*subject = recent\.did/,
      `${what}:\n${window}`,
    )
  }
  await operator.end()
})

test('the newest answer to an award is found without reading or sorting the others', async () => {
  const url = await createDatabase(server, 'answers')
  await using writer = await openIndexWriter(url)
  await writer.write((batch) =>
    batch.put(
      'responses',
      Array.from({ length: 2000 }, (_, index) => ({
        uri: `at://${did(1)}/a.b.c/${index}`,
        did: did(1),
        awardUri: 'at://x/y/z',
        awardCid: 'bafy',
        rejected: 0n,
        feedTime: BigInt(index % 7),
        indexedAt: 1n,
      })),
    ),
  )
  const operator = await connectAs(server, 'answers')
  await operator.query('analyze')
  const statement = awardStatesOf({ dialect: postgresDialect }, ['at://x/y/z'])
  const { rows } = await operator.query(compiled(sql`explain ${statement}`))
  const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
  assert.match(plan, /Index Scan using "responsesByAward"/, plan)
  assert.doesNotMatch(plan, /Sort/, plan)
  await operator.end()
})

test('what names a content is read in pages, none of which reads or sorts the others', async () => {
  const url = await createDatabase(server, 'namings')
  await using writer = await openIndexWriter(url)
  const uris = Array.from({ length: 2000 }, (_, index) => `at://${did(1)}/a.b.c/${index}`)
  const content = { uri: 'at://x/y/z', cid: 'bafy' }
  await writer.write(async (batch) => {
    await batch.put(
      'awards',
      uris.map((uri) => ({
        uri,
        issuer: did(1),
        subject: did(2),
        badgeUri: content.uri,
        badgeCid: content.cid,
      })),
    )
    await batch.put(
      'collectionItems',
      uris.map((uri, index) => ({
        collectionUri: uri,
        activityUri: content.uri,
        activityCid: content.cid,
        feedTime: BigInt(index % 7),
      })),
    )
  })
  const operator = await connectAs(server, 'namings')
  await operator.query('vacuum analyze')
  const last = { uri: `at://${did(1)}/a.b.c/5`, feedTime: 3n, collectionUri: `at://${did(1)}/a.b.c/5` }
  for (const [what, naming] of Object.entries(namings)) {
    for (const after of [undefined, last]) {
      const plan = await planOf(operator, pageNaming(naming, content, after))
      assert.match(plan, /Index Only Scan using/, `${what}:\n${plan}`)
      assert.doesNotMatch(plan, /Sort/, `${what}:\n${plan}`)
    }
  }
  await operator.end()
})

test('whether a label is active is told by the first row of an index, however often it was given', async () => {
  const url = await createDatabase(server, 'labels')
  await using writer = await openIndexWriter(url)
  const label = { src: did(1), did: did(2), uri: did(2), cid: null, val: 'draft', exp: null } as const
  await writer.write((batch) =>
    batch.put(
      'labels',
      Array.from({ length: 2000 }, (_, at) => ({ ...label, neg: 0n, cts: BigInt(at) })),
    ),
  )
  const operator = await connectAs(server, 'labels')
  await operator.query('vacuum analyze')
  await operator.query(['begin', ...planSettings].join(';'))
  const view = { labelers: [did(1)], now: 0n }
  const from = activeLabels(postgresDialect, view, { did: sql`cast(${did(2)} as text)` })
  const plan = await planOf(operator, sql`select 1 from ${from}`)
  assert.equal(plan.match(/"labelsOnce"/g)?.length, 1, plan)
  assert.match(plan, /Index Scan Backward using "labelsOnce"/, plan)
  assert.doesNotMatch(plan, /Sort/, plan)
  await operator.end()
})

test('what a writer looks for is found by indexes, also when its first statements ran on empty tables', async () => {
  const url = await createDatabase(server, 'writer_plans')
  const uris = Array.from({ length: 4000 }, (_, at) => `at://did:plc:a/org.x/${at}`)
  {
    await using writer = await openIndexWriter(url)
    for (let at = 0; at < uris.length; at += 200) {
      const some = uris.slice(at, at + 200)
      await writer.write(async (batch) => {
        await batch.load('entries', some)
        await batch.put(
          'entries',
          some.map((uri) => ({ uri, did: viewer, kind: 'cert.create', feedTime: 1n })),
        )
      })
    }
  }
  const operator = await connectAs(server, 'writer_plans')
  let told: Record<string, string> = {}
  // A session tells what it did when it ends.
  await eventually(async () => {
    const { rows } = await operator.query<Record<string, string>>(
      `select "n_tup_ins" as "written", "seq_tup_read" as "read" from pg_stat_user_tables where "relname" = 'entries'`,
    )
    told = rows[0] ?? {}
    return told['written'] === String(uris.length)
  })
  assert.equal(told['read'], '0')
  await operator.end()
})
