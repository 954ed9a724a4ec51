/** Milliseconds until the next attempt: at least as long as was asked for, and longer with every failure. */
export function retryWait(
  failures: number,
  { first, max }: { first: number; max: number },
  askedMs = 0,
  random: () => number = Math.random,
): number {
  const grown = Math.min(max, first * 2 ** Math.min(failures, 30))
  return Math.ceil(Math.max(askedMs, grown * (0.5 + random() / 2)))
}
