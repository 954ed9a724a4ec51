/** Bounds of the wait between two attempts, in milliseconds. */
export interface BackoffBounds {
  /** The longest wait after the first failure. */
  first: number
  /** The longest wait ever. */
  max: number
}

/**
 * How long to wait before the next attempt, in milliseconds: drawn at random from all of a time that doubles with every
 * failure, so that those who failed together do not come back together.
 * @param failures in a row, not counting the last one.
 */
export function backoffMs(
  failures: number,
  { first, max }: BackoffBounds,
  random: () => number = Math.random,
): number {
  return random() * Math.min(max, first * 2 ** Math.min(failures, 30))
}
