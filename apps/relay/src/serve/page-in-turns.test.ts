import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { CallerTurns } from '@tributary/xrpc'
import type { AccountPage } from '../state/state-store.ts'
import { accountsPerTurn, pageInTurns } from './page-in-turns.ts'

/** Reads accounts that are there, of which so many are looked at at a time; `sizes` notes how many were asked for. */
function reader(total: number, scannedMax = Infinity, isListed: (n: number) => boolean = () => true) {
  const sizes: number[] = []
  const read = (afterDid: string, limit: number): AccountPage<number> => {
    sizes.push(limit)
    const repos: number[] = []
    let next = afterDid === '' ? 0 : Number(afterDid) + 1
    for (let left = scannedMax; left > 0 && next < total && repos.length < limit; left--, next++)
      if (isListed(next)) repos.push(next)
    // The cursor is the last account that was looked at.
    return next < total ? { repos, cursor: String(next - 1) as Did } : { repos } // only handed back
  }
  return { sizes, read }
}

async function page(
  read: (afterDid: string, limit: number) => AccountPage<number>,
  limit: number,
  cursor = '',
): Promise<AccountPage<number>> {
  const json = await pageInTurns(new CallerTurns(), '192.0.2.1', { cursor, limit }, read)
  return JSON.parse(json.toString()) as AccountPage<number> // what is wrong with it fails a test
}

test('a large page is read some accounts at a time, and has all of them in order', async () => {
  const { sizes, read } = reader(1500)
  const { repos, cursor } = await page(read, 1000)
  assert.deepEqual(
    repos,
    Array.from({ length: 1000 }, (_, n) => n),
  )
  assert.equal(cursor, '999')
  assert.deepEqual(sizes, Array<number>(5).fill(accountsPerTurn))
  const rest = await page(read, 1000, cursor)
  assert.deepEqual([rest.repos[0], rest.repos.length, rest.cursor], [1000, 500, undefined])
})

test('a page of which little is listed ends early, with a cursor that goes on behind what was looked at', async () => {
  const { sizes, read } = reader(1000, 300, (n) => n >= 900)
  assert.deepEqual(await page(read, 500), { repos: [], cursor: '299' })
  assert.equal(sizes.length, 1)
  assert.equal((await page(read, 50, '899')).repos.length, 50)
  assert.deepEqual(await page(read, 50, '999'), { repos: [] })
  const { read: readFirst } = reader(300, Infinity, (n) => n < accountsPerTurn)
  assert.equal((await page(readFirst, 500)).repos.length, accountsPerTurn)
})
