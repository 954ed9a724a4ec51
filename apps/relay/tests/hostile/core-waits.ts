import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const sampleMs = 20

/**
 * How long the main thread of a process could have run and had no core, as Linux counts it. Another program causes this, so
 * it is no part of a turn of the thread's event loop. Sampled all the time, because the moment of a turn is not known: from
 * a turn the most is taken that the thread waited within any time as long as the turn. On a busy machine this may hide a
 * turn; figures that are shown to others come from a quiet one.
 */
export class CoreWaits {
  #pid: number | undefined
  /** Since the last `forget`: when, and what the thread had waited since its start. */
  #samples: { atMs: number; waitedMs: number }[] = []

  /** Samples for some time. @param pid undefined while there is no process. */
  async sample(pid: number | undefined, forMs: number): Promise<void> {
    for (const endMs = performance.now() + forMs; performance.now() < endMs; await sleep(sampleMs)) {
      if (pid !== this.#pid) this.#samples = []
      this.#pid = pid
      const waitedMs = pid === undefined ? undefined : waitedForCoreMs(pid)
      if (waitedMs !== undefined) this.#samples.push({ atMs: performance.now(), waitedMs })
    }
  }

  mostWithin(ms: number): number {
    let most = 0
    let first = 0
    // A wait is counted when it is over, at most a sample after the turn.
    for (const { atMs, waitedMs } of this.#samples) {
      while (atMs - (this.#samples[first]?.atMs ?? atMs) > ms + 2 * sampleMs) first++
      most = Math.max(most, waitedMs - (this.#samples[first]?.waitedMs ?? waitedMs))
    }
    return most
  }

  /** Keeps the newest sample only, which the next ones are held against. */
  forget(): void {
    this.#samples = this.#samples.slice(-1)
  }
}

/** Undefined when the process is gone, or the system does not count it. */
function waitedForCoreMs(pid: number): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return undefined
  }
}
