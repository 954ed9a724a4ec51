/** How many rows a statement looks at in SQLite, where it holds up everybody else. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import Sqlite from 'better-sqlite3'
import type { RawBuilder } from 'kysely'
import { did, fill, selection, viewer } from '../../tests/filled-index.ts'
import { openIndexWriter } from '../open-index.ts'
import type { Session } from '../session.ts'
import { compiled, sqliteDialect } from '../sqlite/dialect.ts'
import type { TableName } from '../tables.ts'
import type { IndexWriter } from '../writer.ts'
import { selectInSteps } from './entries.ts'
import { recentOf } from './window.ts'

/** An index, and a session that counts the rows of a table that each statement visits. */
async function startIndex(
  table: TableName,
): Promise<AsyncDisposable & { writer: IndexWriter; session: Session; most: () => number }> {
  await using resources = new AsyncDisposableStack()
  const directory = resources.use(await mkdtempDisposable(join(tmpdir(), 'visited-rows-')))
  const path = join(directory.path, 'index.sqlite')
  const writer = resources.use(await openIndexWriter(path))
  const sqlite = resources.adopt(new Sqlite(path), (opened) => void opened.close())
  sqlite.defaultSafeIntegers(true)
  let [visited, most] = [0, 0]
  sqlite.function('visited', () => ++visited)
  sqlite.exec(`create temp view "${table}" as select * from main."${table}" where visited() > 0`)
  const session = {
    dialect: sqliteDialect,
    async all<Row>(statement: RawBuilder<Row>) {
      const { text, parameters } = compiled(statement)
      visited = 0
      const rows = sqlite.prepare(text).all(...parameters) as Row[] // the statement's own type
      most = Math.max(most, visited)
      return rows
    },
  }
  const started = resources.move()
  return { writer, session, most: () => most, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

test('an account that is followed by thousands of records costs a page what others cost', async () => {
  await using index = await startIndex('follows')
  const { writer, session, most } = index
  const [before, often, after] = [did('a'), did('b'), did('c')]
  await fill(writer, {
    follows: [before, ...Array<Did>(5000).fill(often), after].map((author) => ['follows', viewer, author]),
    entries: [before, often, after].map((author, at): [Did, bigint] => [author, BigInt(at)]),
  })
  const entries = await selectInSteps(session, { ...selection, limit: 10 })
  assert.deepEqual(
    entries.map((entry) => entry.did),
    [after, often, before],
  )
  assert.ok(most() <= 2000, `${most()} rows in one statement`)
})

test('a label that was given a thousand times costs a page what others cost', async () => {
  await using index = await startIndex('labels')
  const { writer, session, most } = index
  const [author, labeler] = [did('author'), did('labeler')]
  await fill(writer, {
    follows: [['follows', viewer, author]],
    entries: Array.from({ length: 100 }, (_, at): [Did, bigint] => [author, BigInt(at)]),
  })
  const label = { src: labeler, did: author, uri: author, cid: null, val: 'draft', exp: null } as const
  await writer.write(async (batch) => {
    await batch.put('organizations', [{ did: author }])
    await batch.put(
      'labels',
      Array.from({ length: 1000 }, (_, at) => ({ ...label, neg: 0n, cts: BigInt(at) })),
    )
  })
  const quality = { allowed: ['draft'], includeUnrated: false }
  const wanted = { ...selection, labelers: [labeler], quality, limit: 100 }
  const entries = await session.all(recentOf(session, wanted, 100))
  assert.equal(entries.length, 100)
  assert.ok(most() <= 10 * entries.length, `${most()} rows in one statement`)
})
