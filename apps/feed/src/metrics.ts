import { createMetrics, type Metrics } from '@tributary/telemetry'
import type { TokenFault } from './auth/refusal.ts'
import type { FeedMethod } from './serve/feed-method.ts'

/** What operators watch of the feed. No label holds a DID, an address, a cursor or anything out of a record. */
export interface FeedMetrics {
  readonly registry: Metrics
  answered(method: FeedMethod, status: number, seconds: number): void
  tokenRefused(fault: TokenFault): void
  /** Entries that `getFeed` left out because their record must not be shown. */
  entriesDropped(count: number): void
  readRefused(reason: 'timeout' | 'busy' | 'gone'): void
}

export function createFeedMetrics(): FeedMetrics {
  const registry = createMetrics('feed')
  const calls = registry.histogram({
    name: 'feed_request_seconds',
    help: 'Time from the arrival of a feed request to its answer, by method and HTTP status.',
    labels: ['method', 'status'],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
  })
  const refusals = registry.counter({
    name: 'feed_tokens_refused_total',
    help: 'Service tokens refused, by reason.',
    labels: ['reason'],
  })
  const drops = registry.counter({
    name: 'feed_entries_dropped_total',
    help: 'Selected entries left out of getFeed because their record breaks its lexicon or its blob limits.',
  })
  const unread = registry.counter({
    name: 'feed_pages_unread_total',
    help: 'Pages that were not read to their end: over the time for one, too many at once, or the caller went.',
    labels: ['reason'],
  })
  return {
    registry,
    answered: (method, status, seconds) => calls.observe({ method, status }, seconds),
    tokenRefused: (reason) => refusals.inc({ reason }),
    entriesDropped: (count) => drops.inc(count),
    readRefused: (reason) => unread.inc({ reason }),
  }
}
