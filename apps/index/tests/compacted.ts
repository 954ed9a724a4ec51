/** What is left of a history after compaction, and what an index must hold of it all the same. */
import type { IndexWriter } from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'
import { rowsOf } from './scenario.ts'

/** Compaction leaves no creates and updates that a later row supersedes. */
export function compacted(events: readonly StreamEvent[]): StreamEvent[] {
  return events.filter((event, at) => {
    if (event.kind !== 'commit' || event.operation === 'delete') return true
    return !events.slice(at + 1).some((later) => {
      if (later.did !== event.did) return false
      if (later.kind === 'commit') return later.collection === event.collection && later.rkey === event.rkey
      // A sync from upstream only says that the records will come again.
      if (later.kind === 'sync') return later.sync.seq === 0
      return later.kind === 'account' && later.account.status === 'deleted'
    })
  })
}

/** Records and entries of an index, as far as an archive can tell them. */
export async function shown(writer: IndexWriter): Promise<Record<string, string[]>> {
  const records = await rowsOf(writer, 'records')
  const entries = await rowsOf(writer, 'entries')
  return {
    records: records
      .map(({ uri, cid, indexedAt, createdAt, feedTime }) =>
        [uri, cid, indexedAt, createdAt, feedTime].join(' '),
      )
      .toSorted(),
    entries: entries.map(({ uri, kind, feedTime }) => [uri, kind, feedTime].join(' ')).toSorted(),
  }
}
