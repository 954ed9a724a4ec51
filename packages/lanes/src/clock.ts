/** The time, and a call at a later time. It comes in through constructors, so that a test lets hours pass at once. */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number
  /** Calls once, unless it is disposed of before. Does not keep the process alive. */
  after(ms: number, call: () => void): Disposable
}

/** A clock that calls again and again, too. */
export interface RepeatingClock extends Clock {
  /** Calls again and again until it is disposed of. Does not keep the process alive. */
  every(ms: number, call: () => void): Disposable
}

export const systemClock: RepeatingClock = {
  nowMs: () => Date.now(),
  after: (ms, call) => setTimeout(call, ms).unref(),
  every: (ms, call) => setInterval(call, ms).unref(),
}

/** Resolves after so long, or as soon as the signal is aborted. */
export async function wait(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return
  await new Promise<void>((resolve) => {
    const over = (): void => {
      timer[Symbol.dispose]()
      signal?.removeEventListener('abort', over)
      resolve()
    }
    const timer = clock.after(ms, over)
    signal?.addEventListener('abort', over)
  })
}
