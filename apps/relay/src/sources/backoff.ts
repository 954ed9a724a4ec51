const hourMs = 3_600_000
const dayMs = 24 * hourMs
const firstMs = 1000

/**
 * How long to wait before a host is dialled again: drawn at random up to a bound that doubles with every failure, to
 * 5 minutes, and for hosts that have been away for a day to an hour, for a week to a day. Never for ever.
 */
export function backoffMs(failures: number, awayMs: number, random: () => number = Math.random): number {
  const max = awayMs > 7 * dayMs ? dayMs : awayMs > dayMs ? hourMs : 300_000
  return random() * Math.min(max, firstMs * 2 ** Math.min(failures, 30))
}
