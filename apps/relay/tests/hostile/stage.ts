/** What a strategy has to play with, in the process of the hostile hosts. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '@tributary/testkit'
import type { Weather } from './directory.ts'
import type { HostileHost } from './hostile-host.ts'

/** Opens the archive of the stream to hostile callers. */
export const apiKey = 'key-of-a-hostile-caller'

/** An account of an honest host. */
export interface Victim {
  did: string
  handle: string
  host: string
}

/** What the campaign itself does for a strategy. */
export type Wish = { kill: 'relay' | 'stream' } | { weather: Weather }

export interface Stage {
  random: Random
  /** Hosts that the relay is subscribed to. */
  hosts: readonly HostileHost[]
  victims: readonly Victim[]
  relayUrl: string
  streamUrl: string
  /** Aborted when the act is over: whatever goes on then must end. */
  signal: AbortSignal
  /** Counts what was done, for the figures. */
  count: (what: string, by?: number) => void
  wish: (wish: Wish) => Promise<void>
}

/** Plays until the act is over, and leaves nothing behind that goes on. What it throws is a fault of the campaign. */
export type Strategy = (stage: Stage) => Promise<void>

/** Waits, less when the act is over. */
export async function pause(stage: Stage, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal: stage.signal }).catch(() => undefined)
}

/** Calls `step` again and again until the act is over, `perSecond` times a second or less. */
export async function repeat(
  stage: Stage,
  perSecond: number,
  step: (index: number) => unknown,
): Promise<void> {
  const startMs = performance.now()
  for (let index = 0; !stage.signal.aborted; index++) {
    await step(index)
    const aheadMs = ((index + 1) / perSecond) * 1000 - (performance.now() - startMs)
    if (aheadMs > 2) await pause(stage, aheadMs)
    else if (index % 16 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
}
