/** Changes of all rows of an account, in steps: they may be more than memory holds. */
import type { Batch, StoredRow } from '@tributary/index-store'
import type { AccountChange } from './apply-event.ts'
import { type FeedPolicy, show, type StoredRecord } from './feed-rows.ts'
import type { IndexRows } from './index-rows.ts'
import type { RecordValue } from './record-facts.ts'

/** Does what an event said is to be done. The rows that were changed in memory must have been written. */
export async function changeAccount(
  batch: Batch,
  rows: IndexRows,
  account: AccountChange,
  policy: FeedPolicy,
): Promise<void> {
  const { did } = account
  await rows.affected.byAccount(batch, did)
  if (account.change === 'supersede') await batch.accounts.keepPlaces(did, account.at)
  if (account.change === 'purge') await batch.accounts.forgetPlaces(did)
  if (account.change === 'supersede' || account.change === 'purge') await batch.accounts.removeRecords(did)
  await batch.accounts.removeShown(did)
  if (account.change !== 'show') return
  for await (const page of batch.accounts.records(did)) {
    for (const { value, ...record } of page.map(readStored)) {
      show(rows, record, value, policy)
      rows.affected.byRecord(record, undefined)
    }
    await rows.flush(batch)
  }
}

/** A stored record with its value. */
export function readStored({ json, ...record }: StoredRow): StoredRecord & { value: RecordValue } {
  return { ...record, value: JSON.parse(json) as RecordValue } // it was written from an object
}
