import { ReaderBusyError, ReadTimeoutError } from './reader.ts'

/**
 * Snapshots that are read at the same time, each on a connection of its own. With eight, four long pages took all places that
 * a network may have, and its short pages waited for them to end.
 */
export const placesMax = 16
/** Snapshots that wait for a place. Most take a millisecond. */
const waitingMax = 256

interface Waiting {
  start: () => void
}

/**
 * Places for snapshots that are read at the same time, and a bounded line of those that wait. A cause, such as the network of
 * a caller, may take another place while it holds fewer than are free, in the line too; so one cause alone gets half. Causes
 * in the line take turns. Snapshots without a cause are our own, and may take every place.
 */
export class ReadPlaces {
  /** Those who wait by their cause, the cause with the next turn first. */
  readonly #lines = new Map<string | undefined, Waiting[]>()
  readonly #held = new Map<string | undefined, number>()
  #waiting = 0
  #free: number

  constructor(places: number) {
    this.#free = places
  }

  /**
   * Resolves when there is a place, which must be given back by `leave` with the same cause.
   * @param deadline in the time of `performance.now`
   */
  async enter(deadline: number, signal: AbortSignal | undefined, cause?: string): Promise<void> {
    signal?.throwIfAborted()
    // Nobody of this cause waits at that moment, because `leave` lets in all who may have a place.
    if (this.#mayEnter(cause)) {
      this.#take(cause)
      return
    }
    const line = this.#lines.get(cause) ?? []
    const room = waitingMax - this.#waiting
    if (room <= 0 || (cause !== undefined && line.length >= room))
      throw new ReaderBusyError('too many pages are being read')
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting: Waiting = { start: resolve }
    const giveUp = (error: unknown): void => {
      const at = line.indexOf(waiting)
      if (at < 0) return
      line.splice(at, 1)
      this.#waiting--
      if (line.length === 0) this.#lines.delete(cause)
      reject(error)
    }
    line.push(waiting)
    this.#lines.set(cause, line)
    this.#waiting++
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

  /** Places that are free go to those who wait. */
  leave(cause?: string): void {
    this.#free++
    const held = (this.#held.get(cause) ?? 0) - 1
    if (held > 0) this.#held.set(cause, held)
    else this.#held.delete(cause)
    while (this.#letNextIn());
  }

  #mayEnter(cause: string | undefined): boolean {
    return this.#free > (cause === undefined ? 0 : (this.#held.get(cause) ?? 0))
  }

  #take(cause: string | undefined): void {
    this.#free--
    this.#held.set(cause, (this.#held.get(cause) ?? 0) + 1)
  }

  #letNextIn(): boolean {
    for (const [cause, line] of this.#lines) {
      if (!this.#mayEnter(cause)) continue
      const next = line.shift()
      this.#waiting--
      // The next one of this cause comes after one of each other cause.
      this.#lines.delete(cause)
      if (line.length > 0) this.#lines.set(cause, line)
      this.#take(cause)
      next?.start()
      return true
    }
    return false
  }
}

export function timedOut(): ReadTimeoutError {
  return new ReadTimeoutError('the index was not read in time')
}
