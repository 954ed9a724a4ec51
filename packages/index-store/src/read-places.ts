import { ReaderBusyError, ReadTimeoutError } from './reader.ts'

/** Snapshots that wait for a place. Most take a millisecond. */
const waitingMax = 256

interface Waiting {
  start: () => void
}

/** Places for snapshots that are read at the same time, and a line for them that is bounded. */
export class ReadPlaces {
  readonly #waiting: Waiting[] = []
  #free: number

  constructor(places: number) {
    this.#free = places
  }

  /**
   * Resolves when there is a place, which must be given back by `leave`.
   * @param deadline in the time of `performance.now`
   */
  async enter(deadline: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    if (this.#free > 0) {
      this.#free--
      return
    }
    if (this.#waiting.length >= waitingMax) throw new ReaderBusyError('too many pages are being read')
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting: Waiting = { start: resolve }
    const giveUp = (error: unknown): void => {
      const at = this.#waiting.indexOf(waiting)
      if (at < 0) return
      this.#waiting.splice(at, 1)
      reject(error)
    }
    this.#waiting.push(waiting)
    const timer = setTimeout(() => giveUp(timedOut()), Math.max(0, deadline - performance.now()))
    const onAbort = (): void => giveUp(signal?.reason)
    signal?.addEventListener('abort', onAbort)
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** The place goes to whom waited longest. */
  leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free++
    else next.start()
  }
}

export function timedOut(): ReadTimeoutError {
  return new ReadTimeoutError('the index was not read in time')
}
