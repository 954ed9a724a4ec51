/** What a window saves: which statements run for a page of many accounts, and by which index SQLite reads them. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { type RawBuilder, sql } from 'kysely'
import { did, fill, selection as base, viewer } from '../../tests/filled-index.ts'
import { openIndexWriter } from '../open-index.ts'
import type { Session } from '../session.ts'
import { compiled, sqliteDialect } from '../sqlite/dialect.ts'
import { selectInSteps } from './entries.ts'
import type { Position, Selection } from './selection.ts'
import { recentOf, windowFirst, type WindowBounds } from './window.ts'

const authors = Array.from({ length: 40 }, (_, index) => did(index))
const bounds: WindowBounds = {
  accountsMin: 10,
  lookUpsPerAccount: 2,
  lookUpsMax: 20,
  lookUpsPerStepMax: 5,
}

interface Store extends AsyncDisposable {
  session: Session
  /** Rows of a statement, and what SQLite says of its plan. */
  planOf: (statement: RawBuilder<unknown>) => string[]
}

/** Each author wrote one entry, and author n + 1 after author n. The viewer follows the authors of `followed`. */
async function storeWith(followed: readonly Did[], endorsed: readonly Did[] = []): Promise<Store> {
  await using resources = new AsyncDisposableStack()
  const directory = resources.use(await mkdtempDisposable(join(tmpdir(), 'window-')))
  const path = join(directory.path, 'index.sqlite')
  const writer = resources.use(await openIndexWriter(path))
  await fill(writer, {
    follows: [
      ...followed.map((author) => ['follows', viewer, author]),
      ...endorsed.map((author) => ['endorsements', did('evaluator'), author]),
    ],
    entries: authors.map((author, at): [Did, bigint] => [author, BigInt(at)]),
  })
  const sqlite = resources.use(new DatabaseSync(path))
  const run = (statement: RawBuilder<unknown>): Record<string, unknown>[] => {
    const { text, parameters } = compiled(statement)
    const prepared = sqlite.prepare(text)
    prepared.setReadBigInts(true)
    return prepared.all(...(parameters as SQLInputValue[])) // as the statement has them
  }
  const started = resources.move()
  return {
    session: {
      dialect: sqliteDialect,
      all: async <Row>(statement: RawBuilder<Row>) => run(statement) as Row[], // the statement's own type
    },
    planOf: (statement) => run(sql`explain query plan ${statement}`).map(({ detail }) => String(detail)),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}

interface Page {
  times: bigint[]
  /** From where on the accounts were looked at one by one; undefined for from the top. */
  below: bigint | undefined | 'nowhere'
  /** Statements that looked into the window. */
  steps: number
}

async function pageOf({ session }: Store, more: Partial<Selection>, within = bounds): Promise<Page> {
  const page: Page = { times: [], below: 'nowhere', steps: 0 }
  const all: Session['all'] = (statement) => {
    if (compiled(statement).text.includes('recent')) page.steps++
    return session.all(statement)
  }
  const select = windowFirst((from, selection) => {
    page.below = selection.after?.feedTime
    return selectInSteps(from, selection)
  }, within)
  const entries = await select({ ...session, all }, { ...base, ...more })
  page.times = entries.map(({ feedTime }) => feedTime)
  return page
}

test('a page that the window fills looks at no account', async () => {
  await using store = await storeWith(authors)
  assert.deepEqual(await pageOf(store, { limit: 4 }), {
    times: [39n, 38n, 37n, 36n],
    below: 'nowhere',
    steps: 1,
  })
  const after = { feedTime: 30n, uri: '' }
  assert.deepEqual(await pageOf(store, { limit: 2, after }), {
    times: [29n, 28n],
    below: 'nowhere',
    steps: 1,
  })
})

test('a window goes on over several steps while it can fill the page, and ends at its bound', async () => {
  await using store = await storeWith(authors.filter((_, at) => at % 2 === 0))
  const times = Array.from({ length: 8 }, (_, at) => 38n - 2n * BigInt(at))
  assert.deepEqual(await pageOf(store, { limit: 8 }), { times, below: 'nowhere', steps: 4 })
  await using dense = await storeWith(authors.filter((_, at) => at !== 21))
  assert.equal((await pageOf(dense, { limit: 20 })).below, 22n)
})

test('a window that cannot be expected to fill the page ends with its first step', async () => {
  await using store = await storeWith(authors.slice(0, 11))
  assert.deepEqual(await pageOf(store, { limit: 2 }), { times: [10n, 9n], below: undefined, steps: 1 })
})

test('a window has no more look-ups than the accounts in scope are worth', async () => {
  await using store = await storeWith(authors.filter((_, at) => at % 4 < 2).slice(-12))
  const wide = { ...bounds, lookUpsMax: 1000, lookUpsPerStepMax: 1000 }
  assert.equal((await pageOf(store, { limit: 12 }, wide)).below, 'nowhere')
  assert.equal((await pageOf(store, { limit: 12 }, { ...wide, lookUpsPerAccount: 1 })).below, undefined)
})

test('a later step of a window is as long as it takes to fill the page, up to its bound', async () => {
  await using store = await storeWith(authors.filter((_, at) => at % 2 === 0))
  const stepsOf = async (lookUpsPerStepMax: number): Promise<number> =>
    (await pageOf(store, { limit: 12 }, { ...bounds, lookUpsMax: 40, lookUpsPerStepMax })).steps
  assert.equal(await stepsOf(20), 2)
  assert.equal(await stepsOf(10), 3)
})

test('a scope of few accounts is selected by account alone', async () => {
  await using store = await storeWith(authors.slice(30))
  assert.deepEqual(await pageOf(store, { limit: 2 }), { times: [39n, 38n], below: undefined, steps: 0 })
  await using more = await storeWith(authors.slice(30), [did('other')])
  const evaluators = [did('evaluator')]
  assert.equal((await pageOf(more, { limit: 2, evaluators })).below, 'nowhere')
})

test('a window is shorter when each entry is looked for among the endorsements of many', async () => {
  await using store = await storeWith(authors)
  const evaluators = Array.from({ length: 4 }, (_, at) => did(`evaluator${at}`))
  assert.equal((await pageOf(store, { limit: 4, evaluators })).below, 'nowhere')
  assert.equal((await pageOf(store, { limit: 5, evaluators })).below, 39n)
  assert.equal((await pageOf(store, { limit: 5 })).below, 'nowhere')
})

const after: Position = { feedTime: 30n, uri: '' }
const quality = { allowed: ['draft'], includeUnrated: true }
const plans: Readonly<Record<string, Partial<Selection>>> = {
  'the first page': {},
  'a later page': { after },
  'a page of some kinds': { after, kinds: ['cert.create', 'update.create'] },
  'a page with evaluators and a quality rule': { after, quality, evaluators: [did('evaluator')] },
}

for (const [what, more] of Object.entries(plans)) {
  test(`the window of ${what} is read by time, and its authors are looked up`, async () => {
    await using store = await storeWith(authors)
    const selection = { ...base, ...more }
    const byTime = 'SEARCH entries USING COVERING INDEX entriesByTime ((feedTime,uri)<(?,?))'
    const steps = store.planOf(recentOf(store.session, selection, 5))
    assert.ok(steps.includes(byTime), steps.join('\n'))
    assert.ok(
      steps.includes('SEARCH follows USING COVERING INDEX followsByViewer (viewer=? AND subject=?)'),
      steps.join('\n'),
    )
    const scanned = steps.filter((step) => /^SCAN (?!json_each|recent|\(subquery|CONSTANT)/.test(step))
    assert.deepEqual(scanned, [])
  })
}
