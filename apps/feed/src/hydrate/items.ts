/**
 * A page of selected entries made ready to draw. Entries whose record must not be shown are left out, not replaced, and so
 * are entries over the limit: no page of fifty is larger than 512 kB.
 */
import type { Did } from '@tributary/protocol'
import type { ActorReader } from '../select/actors.ts'
import type { SelectedRecord } from '../select/entries.ts'
import { summarizeActor, type ActorSummary } from './actor.ts'
import { contentOf, endorsedAccount, type Content } from './content.ts'
import type { LexRecord, RecordReader } from './record.ts'

/** Bytes of one entry as JSON. Records that pass their lexicon stay far below, unless their author aims at it. */
const itemBytesMax = 10_000

export interface FeedItem {
  readonly subject: string
  readonly view: {
    readonly $type: 'org.impact.feed.defs#impactFeedView'
    readonly kind: string
    readonly actor: ActorSummary
    readonly content: Content
  }
}

export type Hydrator = (selected: readonly SelectedRecord[]) => Promise<FeedItem[]>

/** Reads the index at most once per page, for the accounts of the entries that stay. */
export function createHydrator(readRecord: RecordReader, readActors: ActorReader): Hydrator {
  return async (selected) => {
    const shown = selected.flatMap((entry) => {
      const record = readRecord(entry.collection, entry.json)
      return record && isShowable(entry, record) ? [{ ...entry, record }] : []
    })
    if (shown.length === 0) return []

    const accounts = new Set(
      shown.flatMap(({ did, kind, record }) => [did, endorsedAccount(kind, record) ?? did]),
    )
    const sources = await readActors([...accounts])
    const summaries = new Map<Did, ActorSummary>()
    for (const did of accounts) summaries.set(did, summarizeActor(did, sources.get(did), readRecord))
    const summarize = (did: Did): ActorSummary => summaries.get(did) ?? { did }

    const items = shown.map(({ uri, did, kind, record }): FeedItem => ({
      subject: uri,
      view: {
        $type: 'org.impact.feed.defs#impactFeedView',
        kind,
        actor: summarize(did),
        content: contentOf(kind, record, summarize),
      },
    }))
    return items.filter((item) => Buffer.byteLength(JSON.stringify(item)) <= itemBytesMax)
  }
}

function isShowable(entry: SelectedRecord, record: LexRecord): boolean {
  return entry.kind !== 'endorsement.award' || endorsedAccount(entry.kind, record) !== undefined
}
