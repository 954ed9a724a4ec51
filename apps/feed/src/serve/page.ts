/**
 * One page (feed.md 8.1). One entry more than asked for is read; if it is there, it is cut off and the page gets a
 * cursor for the last entry kept, whether that entry can be drawn or not.
 */
import {
  type IndexReader,
  type IndexView,
  type Position,
  ReaderBusyError,
  ReadTimeoutError,
  type Selection,
} from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import { hydrate } from '../hydrate/items.ts'
import type { FeedMetrics } from '../metrics.ts'
import { writeCursor } from '../request/cursor.ts'
import type { PageRules } from '../feeds/feed-algorithm.ts'
import type { FeedMethod } from './feed-method.ts'

export interface PageRequest extends PageRules {
  readonly feedId: string
  readonly viewer: Did
  readonly after?: Position
}

/** The output of either feed method. */
export interface FeedPage {
  /** Entries as JSON. */
  readonly feed: readonly string[]
  readonly cursor?: string
}

export interface PageReaderParts {
  readonly index: IndexReader
  readonly labelers: readonly Did[]
  /** Time to read a page, with the wait for its turn. */
  readonly queryMs: number
  readonly metrics: Pick<FeedMetrics, 'entriesDropped' | 'readRefused'>
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/**
 * Reads pages. Both methods select the same entries for equal requests. Throws XrpcError for a read that takes too long or
 * has no place; storage errors are thrown as they are.
 */
export type PageReader = (method: FeedMethod, request: PageRequest, caller?: PageCaller) => Promise<FeedPage>

export interface PageCaller {
  /** Has a share of the places for pages, and takes turns with others. */
  readonly network?: string
  /** Ends the read when the caller has gone. */
  readonly signal?: AbortSignal
}

export function createPageReader(parts: PageReaderParts): PageReader {
  const { index, queryMs, labelers, metrics, now } = parts
  return async (method, request, { network, signal } = {}) => {
    const selection = { ...request, limit: request.limit + 1, labelers, now: BigInt(now()) * 1000n }
    const read = (view: IndexView): Promise<FeedPage> =>
      method === 'org.impact.feed.getFeedSkeleton'
        ? readSkeleton(view, request, selection)
        : readItems(view, request, selection, metrics)
    try {
      const cause = network === undefined ? {} : { cause: network }
      return await index.snapshot({ timeoutMs: queryMs, ...cause, ...(signal && { signal }) }, read)
    } catch (error) {
      if (error instanceof ReadTimeoutError) {
        metrics.readRefused('timeout')
        const advice = 'The page could not be read in time. A smaller scope may help, or trying again later.'
        throw new XrpcError(500, 'InternalError', advice)
      }
      if (error instanceof ReaderBusyError) {
        metrics.readRefused('busy')
        const advice = 'Too many pages are being read. Try again in a moment.'
        throw new XrpcError(503, 'InternalError', advice, { 'Retry-After': '1' })
      }
      if (signal?.aborted) {
        metrics.readRefused('gone')
        throw new XrpcError(499, 'InternalError', 'The caller has gone.')
      }
      throw error
    }
  }
}

async function readSkeleton(
  view: IndexView,
  { feedId, limit }: PageRequest,
  selection: Selection,
): Promise<FeedPage> {
  const { kept, next } = cut(await view.entries(selection), limit, feedId)
  return { feed: kept.map(({ uri }) => JSON.stringify({ subject: uri })), ...next }
}

async function readItems(
  view: IndexView,
  { feedId, limit }: PageRequest,
  selection: Selection,
  metrics: PageReaderParts['metrics'],
): Promise<FeedPage> {
  const { kept, next } = cut(await view.views(selection), limit, feedId)
  const feed = await hydrate(kept, view)
  metrics.entriesDropped(kept.length - feed.length)
  return { feed, ...next }
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
