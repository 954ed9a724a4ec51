/** On both databases: what the next generation gets from the present one, however much it is, and also after a kill. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IndexStorageError, type IndexWriter, type RowOf } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { did, rowsOf, views } from '../../tests/scenario.ts'
import { Fold } from '../fold/fold.ts'
import { takeOver } from './take-over.ts'

/** More than two pages. */
const count = 1100
/** Rows that statements of a transaction may be about: a page, and what goes with its accounts. */
const transactionRowsMax = 4000
const labeler = did('labeler')
const dids = Array.from({ length: count }, (_, index) => did(`n${letters(index)}`))

function letters(index: number): string {
  return index.toString(6).replaceAll(/./g, (digit) => `${Number(digit) + 2}`)
}

function accountOf(account: Did, hostStatus: string | null): RowOf<'accounts'> {
  const state = { status: 'active', statusSeq: 3n, hidden: 0n, checkedAt: 0n, isAuthor: 1n }
  return { did: account, ...state, hostStatus }
}

function labelOf(account: Did): RowOf<'labels'> {
  return { src: labeler, did: account, uri: account, cid: null, val: 'draft', neg: 0n, cts: 1n, exp: null }
}

/** A generation that the stream has filled, and the one before it, which knows more. */
async function generations(): Promise<AsyncDisposable & { from: IndexWriter; to: IndexWriter }> {
  await using resources = new AsyncDisposableStack()
  const from = resources.use(await openTestIndex())
  const to = resources.use(await openTestIndex())
  for (const writer of [from, to])
    await writer.write(async (batch) => {
      const isPresent = writer === from
      await batch.put(
        'accounts',
        dids.map((each) => accountOf(each, isPresent ? 'active' : null)),
      )
      if (!isPresent) return
      await batch.put('labels', dids.map(labelOf))
      await batch.put('cursors', [{ source: `labels:${labeler}`, cursor: 7n }])
      await batch.put(
        'handles',
        dids.map((each, index) => ({ did: each, handle: `h${index}.test` })),
      )
    })
  const started = resources.move()
  return { from, to, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

/** A writer that notes how many rows each transaction was about, and fails after so many transactions. */
function watched(writer: IndexWriter, rows: number[], transactions = Infinity): IndexWriter {
  return {
    write: (work) =>
      writer.write(async (batch) => {
        if (rows.length >= transactions) throw new IndexStorageError('planted')
        const result = await work(batch)
        rows.push(batch.rows)
        return result
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

async function isTaken({ from, to }: { from: IndexWriter; to: IndexWriter }): Promise<void> {
  const key = (row: object): string => Object.values(row).join()
  for (const table of ['labels', 'handles', 'cursors', 'accounts'] as const) {
    const [own, taken] = [await rowsOf(from, table), await rowsOf(to, table)]
    assert.deepEqual(taken.map(key).toSorted(), own.map(key).toSorted(), table)
  }
}

test('what the stream does not tell is taken over page by page, in transactions of a bounded size', async () => {
  await using pair = await generations()
  const rows: number[] = []
  const [from, to] = [watched(pair.from, rows), watched(pair.to, rows)]
  const fold = new Fold(to, { updateContentTypes: [] }, views)
  await takeOver({ from, to, fold, isAnother: false })
  await isTaken(pair)
  assert.ok(Math.max(...rows) <= transactionRowsMax, `${Math.max(...rows)} rows`)
})

test('after a kill in the middle all is taken over as it is by then', async () => {
  await using pair = await generations()
  const fold = new Fold(pair.to, { updateContentTypes: [] }, views)
  for (let transactions = 1; ; transactions += 2) {
    const to = watched(pair.to, [], transactions)
    try {
      await takeOver({ from: pair.from, to, fold, isAnother: false })
      break
    } catch (error) {
      assert.ok(error instanceof IndexStorageError, String(error))
    }
    // A handle is lost meanwhile, and another account gets one.
    const lost = dids.slice(transactions, transactions + 1)
    await pair.from.write((batch) => batch.remove('handles', lost))
  }
  await isTaken(pair)
})

test('what a host said counts only beside the same word of the stream, which another stream may not say', async () => {
  await using from = await openTestIndex()
  await using to = await openTestIndex()
  const account = { ...accountOf(did('one'), 'deactivated'), hidden: 1n, checkedAt: 9n }
  const throttled = { ...accountOf(did('one'), null), status: 'throttled' }
  await from.write((batch) => batch.put('accounts', [account]))
  await to.write((batch) => batch.put('accounts', [throttled]))
  const fold = new Fold(to, { updateContentTypes: [] }, views)
  await takeOver({ from, to, fold, isAnother: true })
  assert.deepEqual(await rowsOf(to, 'accounts'), [throttled])
  await to.write((batch) => batch.put('accounts', [{ ...throttled, status: 'active' }]))
  await takeOver({ from, to, fold, isAnother: true })
  const [{ hidden, hostStatus } = throttled] = await to.write((batch) => batch.loadAll('accounts'))
  assert.deepEqual([hidden, hostStatus], [1n, 'deactivated'])
})
