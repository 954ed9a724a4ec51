/** The longest wait before something is tried again, whatever a host asks for. */
export const waitMsMax = 3_600_000

/** Milliseconds until the next attempt: at least as long as was asked for, and longer with every failure. */
export function retryWait(
  failures: number,
  { first, max }: { first: number; max: number },
  askedMs = 0,
  random: () => number = Math.random,
): number {
  const grown = Math.min(max, first * 2 ** Math.min(failures, 30))
  return Math.ceil(Math.min(waitMsMax, Math.max(askedMs, grown * (0.5 + random() / 2))))
}

/** Whether a time has come. One that is further away than anybody waits was noted before the clock was set back. */
export function hasCome(atMs: number, nowMs: number): boolean {
  return atMs <= nowMs || atMs > nowMs + waitMsMax
}
