import type { FeedAlgorithm } from './feed-algorithm.ts'
import { impactFeed } from './impact-feed.ts'

/** The feeds that can be asked for. */
export const feeds: readonly FeedAlgorithm[] = [impactFeed]
