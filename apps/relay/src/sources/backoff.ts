import type { BackoffBounds } from '@tributary/subscription'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/**
 * Bounds of the wait before a host is dialled again: 5 minutes at most, an hour for hosts that have been away for a
 * day, and a day for those that have been away for a week. No host is given up.
 */
export function dialBounds(awayMs: number): BackoffBounds {
  return { first: 1000, max: awayMs > 7 * dayMs ? dayMs : awayMs > dayMs ? hourMs : 300_000 }
}
