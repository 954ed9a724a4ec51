/** Changes of all rows of an account, in steps: they may be more than memory holds. */
import type { Batch, RecordRow, StoredRow } from '@tributary/index-store'
import type { AccountChange } from './apply-event.ts'
import type { CutPoints } from './cuts.ts'
import { type FeedPolicy, readsContent, show, type StoredRecord } from './feed-rows.ts'
import { IndexRows } from './index-rows.ts'
import type { RecordValue } from './record-facts.ts'
import { settleWhenMuch } from './settle.ts'

/**
 * Does what an event said is to be done. The rows that were changed in memory must have been written. Doing it again from
 * its beginning changes nothing that is done.
 */
export async function changeAccount(
  batch: Batch,
  rows: IndexRows,
  account: AccountChange,
  policy: FeedPolicy,
  cuts?: CutPoints,
): Promise<void> {
  const { did } = account
  const { accounts } = batch
  const all = async (steps: AsyncIterable<void>): Promise<void> => {
    for await (const _ of steps) await cuts?.cut()
  }
  if (cuts) cuts.change = account
  const isRemoved = account.change === 'supersede' || account.change === 'purge'
  // A hidden account is shown no longer than it takes.
  if (account.change === 'hide') await all(accounts.removeShown(did))
  if (account.change === 'supersede') await all(accounts.keepPlaces(did, account.at))
  if (account.change === 'purge') await all(accounts.forgetPlaces(did))
  for await (const awards of isRemoved ? accounts.removeAnswers(did) : accounts.answeredAwards(did)) {
    for (const uri of awards) rows.affected.byAward(uri)
    await settleWhenMuch(batch, rows, cuts)
    await cuts?.cut()
  }
  // Earlier notes may be settled until the records are gone. An account that comes back is made again in its place.
  if (isRemoved) {
    await all(accounts.removeRecords(did))
    await all(accounts.removeShown(did))
  }
  rows.affected.byDefiner(did)
  if (account.change === 'show') {
    for await (const page of accounts.records(did)) {
      for (const record of page) rows.affected.bySelf(record)
      await all(showAll(batch, page, policy))
      await settleWhenMuch(batch, rows, cuts)
      await cuts?.cut()
    }
  }
  if (cuts) cuts.change = undefined
}

/** Makes the rows that follow from visible records, in steps. Their text is read only where it says something. */
async function* showAll(batch: Batch, page: readonly RecordRow[], policy: FeedPolicy): AsyncGenerator<void> {
  const rows = new IndexRows()
  const isRead = ({ collection }: RecordRow): boolean => readsContent(collection, policy)
  for (const record of page) if (!isRead(record)) show(rows, record, {}, policy)
  await rows.flush(batch)
  for await (const some of batch.accounts.recordsAt(page.filter(isRead).map(({ uri }) => uri))) {
    for (const { value, ...record } of some.map(readStored)) show(rows, record, value, policy)
    await rows.flush(batch)
    yield
  }
}

/** A stored record with its value. */
export function readStored({ json, ...record }: StoredRow): StoredRecord & { value: RecordValue } {
  return { ...record, value: JSON.parse(json) as RecordValue } // it was written from an object
}
