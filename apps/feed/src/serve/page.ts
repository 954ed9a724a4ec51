/**
 * One page (feed.md 8.1). One entry more than asked for is read; if it is there, it is cut off and the page gets a
 * cursor for the last entry kept, whether that entry can be drawn or not.
 */
import type { Did } from '@tributary/protocol'
import type { FeedItem, Hydrator } from '../hydrate/items.ts'
import type { FeedMetrics } from '../metrics.ts'
import { writeCursor, type Position } from '../request/cursor.ts'
import type { PageRules } from '../request/rules.ts'
import { selectEntries, selectViews, type Selection } from '../select/entries.ts'
import type { IndexReader } from '../select/index-reader.ts'
import type { FeedMethod } from './feed-call.ts'

export interface PageRequest extends PageRules {
  readonly feedId: string
  readonly viewer: Did
  readonly after?: Position
}

/** The output of either feed method. */
export interface FeedPage {
  readonly feed: readonly (FeedItem | { readonly subject: string })[]
  readonly cursor?: string
}

export interface PageReaderParts {
  readonly index: IndexReader
  readonly hydrate: Hydrator
  readonly labelers: readonly Did[]
  readonly metrics: Pick<FeedMetrics, 'entriesDropped'>
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** Reads pages. Both methods select the same entries for equal requests. Storage errors are thrown. */
export type PageReader = (method: FeedMethod, request: PageRequest) => Promise<FeedPage>

export function createPageReader({ index, hydrate, labelers, metrics, now }: PageReaderParts): PageReader {
  return async (method, request) => {
    const { feedId, limit } = request
    const selection: Selection = { ...request, limit: limit + 1, labelers, now: BigInt(now()) * 1000n }
    if (method === 'org.impact.feed.getFeedSkeleton') {
      const entries = await index.read((db) => selectEntries(db, selection))
      const { kept, next } = cut(entries, limit, feedId)
      return { feed: kept.map(({ uri }) => ({ subject: uri })), ...next }
    }
    const entries = await index.read((db) => selectViews(db, selection))
    const { kept, next } = cut(entries, limit, feedId)
    const feed = await hydrate(kept)
    metrics.entriesDropped(kept.length - feed.length)
    return { feed, ...next }
  }
}

function cut<Entry extends Position>(
  entries: readonly Entry[],
  limit: number,
  feedId: string,
): { readonly kept: readonly Entry[]; readonly next: { readonly cursor?: string } } {
  const kept = entries.slice(0, limit)
  const last = kept.at(-1)
  const hasMore = entries.length > limit && last !== undefined
  return { kept, next: hasMore ? { cursor: writeCursor(feedId, last) } : {} }
}
