/**
 * Places for questions to hosts that the network names, which may take seconds to answer, or never do. A cause, such as a
 * host, may take another place while it holds fewer than are free. So one alone gets half, and any number of them together
 * leave something free for the next.
 */
import type { Did } from '@tributary/protocol'

interface Held {
  places: number
  /** The latest moment that somebody who had to wait was told. */
  toldMs: number
  /** How soon after each other its places became free last. */
  freedEveryMs: number
}

export interface HostPlacesOptions {
  readonly placesMax: number
  /** Those who find no place are told to come back one by one, so far apart, or further if places become free more slowly. */
  readonly apartMs: number
  readonly nowMs: () => number
}

/** A wait is at least so long. */
const waitMsMin = 1000

/** A cause has as many places as it may. */
export class NoPlaceError extends Error {
  override readonly name = 'NoPlaceError'
  /** Milliseconds after which to try again. */
  readonly waitMs: number

  constructor(waitMs: number) {
    super('too many questions of this cause are under way')
    this.waitMs = waitMs
  }
}

export class HostPlaces {
  readonly #options: HostPlacesOptions
  readonly #held = new Map<string, Held>()
  #free: number

  constructor(options: HostPlacesOptions) {
    this.#options = options
    this.#free = options.placesMax
  }

  /**
   * Works in a place of the cause.
   * @throws NoPlaceError when it has as many as it may, and what `work` throws.
   */
  async within<T>(cause: string, work: () => Promise<T>): Promise<T> {
    this.#take(cause)
    const startedMs = this.#options.nowMs()
    try {
      return await work()
    } finally {
      this.#leave(cause, this.#options.nowMs() - startedMs)
    }
  }

  /**
   * Reads a DID document. The hosts of `did:web` are one cause together, because whoever has a domain has any number of names
   * below it; so they hold up no account of the directory, which answers soon or is away for everybody.
   * @throws NoPlaceError and what `read` throws
   */
  readDocument<T>(did: Did, read: () => Promise<T>): Promise<T> {
    return did.startsWith('did:web:') ? this.within('did:web', read) : read()
  }

  #take(cause: string): void {
    const held = this.#held.get(cause) ?? { places: 0, toldMs: 0, freedEveryMs: 0 }
    if (held.places >= this.#free) {
      const { apartMs, nowMs } = this.#options
      held.toldMs = Math.max(held.toldMs + Math.max(apartMs, held.freedEveryMs), nowMs() + waitMsMin)
      throw new NoPlaceError(held.toldMs - nowMs())
    }
    held.places++
    this.#free--
    this.#held.set(cause, held)
  }

  #leave(cause: string, tookMs: number): void {
    const held = this.#held.get(cause)
    if (held === undefined) return
    held.freedEveryMs = tookMs / held.places
    held.places--
    this.#free++
    if (held.places === 0) this.#held.delete(cause)
  }
}
