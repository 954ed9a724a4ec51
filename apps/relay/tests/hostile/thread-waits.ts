import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const sampleMs = 20

/** Milliseconds for which a thread waited within some time. */
export interface Waits {
  /** It could have run, and had no core. */
  coreMs: number
  /** It slept until the disk was done. */
  diskMs: number
}

/**
 * How long the main thread of a process waited for a core, as Linux counts it, and for the disk, as its state tells at each
 * sample. Other programs cause the first, and a disk that stands still the second. Sampled all the time, because the moment
 * of a turn is not known: from a turn the most is taken that the thread waited within any time as long as the turn. On a
 * busy machine this may hide a turn; figures that are shown to others come from a quiet one.
 */
export class ThreadWaits {
  #pid: number | undefined
  /** Since the last `forget`: when, and what the thread had waited since its start, or since the first sample. */
  #samples: (Waits & { atMs: number })[] = []

  /** Samples for some time. @param pid undefined while there is no process. */
  async sample(pid: number | undefined, forMs: number): Promise<void> {
    for (const endMs = performance.now() + forMs; performance.now() < endMs; await sleep(sampleMs)) {
      if (pid !== this.#pid) this.#samples = []
      this.#pid = pid
      const state = pid === undefined ? undefined : threadOf(pid)
      if (!state) continue
      const atMs = performance.now()
      const { diskMs = 0, atMs: beforeMs = atMs } = this.#samples.at(-1) ?? {}
      const sleptMs = state.isInDisk ? atMs - beforeMs : 0
      this.#samples.push({ atMs, coreMs: state.coreMs, diskMs: diskMs + sleptMs })
    }
  }

  mostWithin(ms: number): Waits {
    const most = { coreMs: 0, diskMs: 0 }
    let first = 0
    // A wait is counted when it is over, at most a sample after the turn.
    for (const sample of this.#samples) {
      while (sample.atMs - (this.#samples[first]?.atMs ?? sample.atMs) > ms + 2 * sampleMs) first++
      const before = this.#samples[first] ?? sample
      most.coreMs = Math.max(most.coreMs, sample.coreMs - before.coreMs)
      most.diskMs = Math.max(most.diskMs, sample.diskMs - before.diskMs)
    }
    return most
  }

  /** Keeps the newest sample only, which the next ones are held against. */
  forget(): void {
    this.#samples = this.#samples.slice(-1)
  }
}

/** Undefined when the process is gone, or the system does not count it. */
function threadOf(pid: number): { coreMs: number; isInDisk: boolean } | undefined {
  try {
    const of = (file: string): string => readFileSync(`/proc/${pid}/task/${pid}/${file}`, 'utf8')
    // The name before the state may hold anything, a closing bracket too.
    const stat = of('stat')
    return {
      coreMs: Number(of('schedstat').split(' ')[1]) / 1e6,
      isInDisk: stat.startsWith(') D', stat.lastIndexOf(')')),
    }
  } catch {
    return undefined
  }
}
