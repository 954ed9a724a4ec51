/** Changes of all rows of an account, in steps: they may be more than memory holds. */
import type { Batch, RecordRow, StoredRow } from '@tributary/index-store'
import type { AccountChange } from './apply-event.ts'
import { type FeedPolicy, readsContent, show, type StoredRecord } from './feed-rows.ts'
import { IndexRows } from './index-rows.ts'
import type { RecordValue } from './record-facts.ts'
import { settleWhenMuch } from './settle.ts'

/** Does what an event said is to be done. The rows that were changed in memory must have been written. */
export async function changeAccount(
  batch: Batch,
  rows: IndexRows,
  account: AccountChange,
  policy: FeedPolicy,
): Promise<void> {
  const { did } = account
  const isRemoved = account.change === 'supersede' || account.change === 'purge'
  if (account.change === 'supersede') await batch.accounts.keepPlaces(did, account.at)
  if (account.change === 'purge') await batch.accounts.forgetPlaces(did)
  for await (const awards of batch.accounts[isRemoved ? 'removeAnswers' : 'answeredAwards'](did)) {
    for (const uri of awards) rows.affected.byAward(uri)
    await settleWhenMuch(batch, rows)
  }
  if (isRemoved) await batch.accounts.removeRecords(did)
  rows.affected.byDefiner(did)
  await batch.accounts.removeShown(did)
  if (account.change !== 'show') return
  for await (const page of batch.accounts.records(did)) {
    await showAll(batch, page, policy)
    for (const record of page) rows.affected.bySelf(record)
    await settleWhenMuch(batch, rows)
  }
}

/** Makes the rows that follow from visible records. Their text is read only where it says something. */
async function showAll(batch: Batch, page: readonly RecordRow[], policy: FeedPolicy): Promise<void> {
  const rows = new IndexRows()
  const isRead = ({ collection }: RecordRow): boolean => readsContent(collection, policy)
  for (const record of page) if (!isRead(record)) show(rows, record, {}, policy)
  for await (const some of batch.accounts.recordsAt(page.filter(isRead).map(({ uri }) => uri)))
    for (const { value, ...record } of some.map(readStored)) show(rows, record, value, policy)
  await rows.flush(batch)
}

/** A stored record with its value. */
export function readStored({ json, ...record }: StoredRow): StoredRecord & { value: RecordValue } {
  return { ...record, value: JSON.parse(json) as RecordValue } // it was written from an object
}
