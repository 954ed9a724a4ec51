import { setTimeout as pause } from 'node:timers/promises'

/** Resolves after `delayMs`, or at once when the signal aborts. Never rejects. */
export async function pauseUnless(signal: AbortSignal, delayMs: number): Promise<void> {
  try {
    await pause(delayMs, undefined, { signal })
  } catch {
    // Aborted: the caller looks at the signal.
  }
}
