import * as lanes from '@tributary/lanes'

/** The time, and calls at later times. It comes in through constructors, so that a test lets hours pass at once. */
export interface Clock extends lanes.Clock {
  /** Calls again and again until it is disposed of. Does not keep the process alive. */
  every(ms: number, call: () => void): Disposable
}

export const systemClock: Clock = {
  ...lanes.systemClock,
  every: (ms, call) => setInterval(call, ms).unref(),
}
