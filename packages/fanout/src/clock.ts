/** The time, and calls at later times. It comes in through the constructor, so that a test lets hours pass at once. */
export interface FanoutClock {
  /** Milliseconds since 1970 as the machine tells them. Somebody may set it, in both directions. */
  nowMs(): number
  /** Milliseconds since some moment before the start. Nobody can set it, and it never goes back. */
  elapsedMs(): number
  /** Calls once, unless it is disposed of before. Does not keep the process alive. */
  after(ms: number, call: () => void): Disposable
  /** Calls again and again until it is disposed of. Does not keep the process alive. */
  every(ms: number, call: () => void): Disposable
}

export const systemClock: FanoutClock = {
  nowMs: () => Date.now(),
  elapsedMs: () => performance.now(),
  after: (ms, call) => setTimeout(call, ms).unref(),
  every: (ms, call) => setInterval(call, ms).unref(),
}
