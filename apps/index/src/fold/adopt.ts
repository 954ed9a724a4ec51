import type { Batch, IndexWriter } from '@tributary/index-store'
import { readStored } from './account-changes.ts'
import type { Making } from './apply-event.ts'
import { show } from './feed-rows.ts'
import { IndexRows } from './index-rows.ts'
import { prepareView } from './records.ts'

/**
 * Prepares and classifies stored records again when the settings or the forms of views differ from those that their
 * rows were made with. A few records at a time are a transaction, and a walk that was interrupted begins again.
 * Until it is through, records that do not change show as they did.
 */
export async function adopt(writer: IndexWriter, making: Making, signal: AbortSignal): Promise<void> {
  const { policy, views } = making
  const text = JSON.stringify({ ...policy, views: views.version })
  const madeWith = await writer.write((batch) => batch.load('policies', ['making']))
  if (madeWith[0]?.value === text) return
  const note = (value: string): Promise<void> =>
    writer.write((batch) => batch.put('policies', [{ name: 'making', value }]))
  // Nothing is known of the rows until the walk is through, whatever settings the next start has.
  await note('')
  for (let after: string | undefined = ''; after !== undefined && !signal.aborted;) {
    const from: string = after
    after = await writer.write((batch) => adoptPage(batch, from, making))
  }
  if (!signal.aborted) await note(text)
}

/** Returns the address to go on from; undefined at the end. */
async function adoptPage(
  batch: Batch,
  after: string,
  { policy, views }: Making,
): Promise<string | undefined> {
  const addresses = await batch.accounts.recordAddresses(after)
  const wanted = addresses.filter(({ collection }) => views.collections.has(collection))
  for await (const page of batch.accounts.recordsAt(wanted.map(({ uri }) => uri))) {
    const rows = new IndexRows()
    const records = page.map(readStored)
    await rows.accounts.load(
      batch,
      records.map(({ did }) => did),
    )
    for (const { value, ...record } of records) {
      prepareView(rows, { ...record, value }, views)
      if (rows.accounts.get(record.did)?.hidden !== 1n) show(rows, record, value, policy)
      if (batch.isTurnOver()) await batch.turn()
    }
    await rows.flush(batch)
    await batch.split()
  }
  return addresses.at(-1)?.uri
}
