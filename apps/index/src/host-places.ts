/**
 * Places for questions to hosts that the network names, which may take seconds to answer, or never do. A cause, such as a
 * host, may take another place while it holds fewer than are free, so one alone gets half. A host has places by the quick
 * answers that it gave. Hosts that are new are one cause together besides, and so are those that were slow, because whoever
 * has a domain has any number of hosts below it.
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

/** An answer that takes longer is slow, whatever it says. */
const quickMsMax = 2000
/** Places that each quick answer gives its host, which a new or slow host may have too. A slow answer takes away half. */
const creditStep = 2
/** Hosts whose credit is remembered, those asked last. Another one is new. */
const hostsMax = 10_000
/** Causes that are no host. */
const [newHosts, slowHosts, webDocuments] = [' new', ' slow', ' did:web']

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
  /** Places that each host may have, the host that was asked last at the end. */
  readonly #credits = new Map<string, number>()
  #free: number

  constructor(options: HostPlacesOptions) {
    this.#options = options
    this.#free = options.placesMax
  }

  /**
   * Asks a host, in a place.
   * @throws NoPlaceError when it has as many as it may, and what `ask` throws.
   */
  async within<T>(host: string, ask: () => Promise<T>): Promise<T> {
    const credit = this.#credits.get(host)
    const causes = credit === undefined ? [host, newHosts] : credit === 0 ? [host, slowHosts] : [host]
    if (this.#placesOf(host) >= Math.max(credit ?? 0, creditStep)) throw this.#noPlace(host)
    return await this.#inPlace(causes, ask, host)
  }

  /**
   * Reads a DID document. The hosts of `did:web` are one cause together, because whoever has a domain has any number of names
   * below it; so they hold up no account of the directory, which answers soon or is away for everybody.
   * @throws NoPlaceError and what `read` throws
   */
  readDocument<T>(did: Did, read: () => Promise<T>): Promise<T> {
    return did.startsWith('did:web:') ? this.#inPlace([webDocuments], read) : read()
  }

  async #inPlace<T>(causes: readonly string[], ask: () => Promise<T>, host?: string): Promise<T> {
    const full = causes.find((cause) => this.#placesOf(cause) >= this.#free)
    if (full !== undefined) throw this.#noPlace(full)
    this.#free--
    for (const cause of causes) this.#hold(cause)
    const startedMs = this.#options.nowMs()
    try {
      return await ask()
    } finally {
      const tookMs = this.#options.nowMs() - startedMs
      this.#free++
      for (const cause of causes) this.#leave(cause, tookMs)
      if (host !== undefined) this.#note(host, tookMs)
    }
  }

  #placesOf(cause: string): number {
    return this.#held.get(cause)?.places ?? 0
  }

  #hold(cause: string): void {
    const held = this.#held.get(cause) ?? { places: 0, toldMs: 0, freedEveryMs: 0 }
    held.places++
    this.#held.set(cause, held)
  }

  #leave(cause: string, tookMs: number): void {
    const held = this.#held.get(cause)
    if (held === undefined) return
    held.freedEveryMs = tookMs / held.places
    held.places--
    if (held.places === 0) this.#held.delete(cause)
  }

  #noPlace(cause: string): NoPlaceError {
    const { apartMs, nowMs } = this.#options
    const held = this.#held.get(cause) ?? { places: 0, toldMs: 0, freedEveryMs: 0 }
    held.toldMs = Math.max(held.toldMs + Math.max(apartMs, held.freedEveryMs), nowMs() + waitMsMin)
    return new NoPlaceError(held.toldMs - nowMs())
  }

  #note(host: string, tookMs: number): void {
    const credit = this.#credits.get(host) ?? 0
    const most = this.#options.placesMax / 2
    const isQuick = tookMs <= quickMsMax
    this.#credits.delete(host)
    this.#credits.set(host, isQuick ? Math.min(most, credit + creditStep) : Math.floor(credit / 2))
    const [oldest] = this.#credits.keys()
    if (this.#credits.size > hostsMax && oldest !== undefined) this.#credits.delete(oldest)
  }
}
