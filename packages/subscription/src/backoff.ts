/** Bounds of the wait between two attempts, in milliseconds. */
export interface BackoffBounds {
  /** The longest wait while the other side has been away for four times this or less. */
  first: number
  /** The longest wait ever. */
  max: number
}

/** No wait is longer than this share of the time for which the other side has been away. */
const shareOfAway = 1 / 4

/**
 * How long to wait before the next attempt, in milliseconds. It is drawn at random, so that those who failed together do
 * not come back together. It is a quarter of the time away at most: who was away for seconds is found after a second.
 *
 * @param awayMs milliseconds since the connection was last good.
 */
export function backoffMs(
  awayMs: number,
  { first, max }: BackoffBounds,
  random: () => number = Math.random,
): number {
  return random() * Math.min(max, Math.max(first, awayMs * shareOfAway))
}
