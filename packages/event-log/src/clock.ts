/** Where a log gets its times from. */
export interface Clock {
  /** Milliseconds since 1970 as the machine tells them. Somebody may set it, in both directions. */
  wallMs: () => number
  /** Milliseconds since some moment before the start. Nobody can set it, and it never goes back. */
  elapsedMs: () => number
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  elapsedMs: () => performance.now(),
}
