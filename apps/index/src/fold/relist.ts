import type { Batch } from '@tributary/index-store'
import { readStored } from './account-changes.ts'
import type { Cuts } from './cuts.ts'
import type { IndexRows } from './index-rows.ts'
import { readOwnActivities } from './record-facts.ts'
import { writeChanges } from './settle.ts'

/** Replaces the items of collection records by those that the stored records list. Records that are gone list none. */
export async function relist(
  batch: Batch,
  rows: IndexRows,
  uris: readonly string[],
  cuts: Cuts,
): Promise<void> {
  // A cut notes those that are left.
  for (const uri of uris) cuts.listings.add(uri)
  for await (const page of batch.accounts.recordsAt(uris)) {
    for (const { uri, did, feedTime, value } of page.map(readStored))
      rows.setItems(uri, { items: readOwnActivities(did, value), feedTime })
    await writeChanges(batch, rows, cuts)
  }
  for (const uri of cuts.listings) rows.setItems(uri, { items: [], feedTime: 0n })
  await writeChanges(batch, rows, cuts)
}
