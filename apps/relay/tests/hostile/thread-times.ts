import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const sampleMs = 20

/** Milliseconds of a thread within some time. */
export interface Times {
  /** It ran. */
  runMs: number
  /** It could have run, and had no core. */
  coreMs: number
}

/**
 * How long the main thread of a process ran, and how long it waited for a core, as Linux counts both. Other programs cause
 * the second. In a turn in which it did neither it slept for the disk: nothing else has it sleep within a turn. Sampled all
 * the time, because the moment of a turn is not known: the most is taken that the thread had within any time as long as the
 * turn. On a busy machine this may hide a turn; figures that are shown to others come from a quiet one.
 */
export class ThreadTimes {
  #pid: number | undefined
  /** Since the last `forget`: when, and what the thread had since its start. */
  #samples: (Times & { atMs: number })[] = []

  /** Samples for some time. @param pid undefined while there is no process. */
  async sample(pid: number | undefined, forMs: number): Promise<void> {
    for (const endMs = performance.now() + forMs; performance.now() < endMs; await sleep(sampleMs)) {
      if (pid !== this.#pid) this.#samples = []
      this.#pid = pid
      const times = pid === undefined ? undefined : timesOf(pid)
      if (times) this.#samples.push({ atMs: performance.now(), ...times })
    }
  }

  mostWithin(ms: number): Times {
    const most = { runMs: 0, coreMs: 0 }
    let first = 0
    // The time that a thread had is counted when it is over, at most a sample after the turn.
    for (const sample of this.#samples) {
      while (sample.atMs - (this.#samples[first]?.atMs ?? sample.atMs) > ms + 2 * sampleMs) first++
      const before = this.#samples[first] ?? sample
      most.runMs = Math.max(most.runMs, sample.runMs - before.runMs)
      most.coreMs = Math.max(most.coreMs, sample.coreMs - before.coreMs)
    }
    return most
  }

  /** Keeps the newest sample only, which the next ones are held against. */
  forget(): void {
    this.#samples = this.#samples.slice(-1)
  }
}

/** Undefined when the process is gone, or the system does not count it. */
function timesOf(pid: number): Times | undefined {
  try {
    const [run, waited] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')
    return { runMs: Number(run) / 1e6, coreMs: Number(waited) / 1e6 }
  } catch {
    return undefined
  }
}
