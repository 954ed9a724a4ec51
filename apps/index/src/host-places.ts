/**
 * Places for questions to hosts that the network names, which may take seconds to answer, or never do. A cause, such as a
 * host, may take another place while it holds fewer than are free, so one alone gets half. A host has places by the quick
 * answers that it gave. Hosts that are new are one cause together besides, and so are those that were slow, because whoever
 * has a domain has any number of hosts below it. Of what these may have, a domain alone gets half, by the same rule.
 */
import { RecentMap } from '@tributary/identity'
import type { Did } from '@tributary/protocol'

interface Cause {
  readonly name: string
  /** The cause of which it has a share. */
  readonly group?: string
}

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
/** Causes that are no host. Their domains have shares of them. */
const [newHosts, slowHosts, webDocuments] = [' new', ' slow', ' did:web']

/** A wait is at least and at most so long. Those who would have to wait longer come back at the same time. */
const waitMs = { min: 1000, max: 3_600_000 }
/** Accounts of which it is remembered when they are to come back. Another one is counted again. */
const toldMax = 10_000

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
  /** When accounts were told to come back. Identity events make them ask again before that, as often as they like. */
  readonly #told = new RecentMap<Did, number>(toldMax)
  #free: number

  constructor(options: HostPlacesOptions) {
    this.#options = options
    this.#free = options.placesMax
  }

  /**
   * Asks a host about an account, in a place.
   * @throws NoPlaceError when it has as many as it may, and what `ask` throws.
   */
  async within<T>(host: string, did: Did, ask: () => Promise<T>): Promise<T> {
    const credit = this.#credits.get(host)
    if (this.#placesOf(host) >= Math.max(credit ?? 0, creditStep)) throw this.#noPlace(host, did)
    const group = credit === undefined ? newHosts : credit === 0 ? slowHosts : undefined
    const causes = group === undefined ? [] : withDomain(group, host)
    return await this.#inPlace(did, [{ name: host }, ...causes], ask, host)
  }

  /**
   * Reads a DID document. The hosts of `did:web` are one cause together, because whoever has a domain has any number of names
   * below it; so they hold up no account of the directory, which answers soon or is away for everybody.
   * @throws NoPlaceError and what `read` throws
   */
  readDocument<T>(did: Did, read: () => Promise<T>): Promise<T> {
    if (!did.startsWith('did:web:')) return read()
    const host = did.slice('did:web:'.length).replace(/%3A/i, ':')
    return this.#inPlace(did, withDomain(webDocuments, host), read)
  }

  async #inPlace<T>(did: Did, causes: readonly Cause[], ask: () => Promise<T>, host?: string): Promise<T> {
    const full = causes.find((cause) => this.#isFull(cause))
    if (full !== undefined) throw this.#noPlace(full.name, did)
    this.#free--
    for (const { name } of causes) this.#hold(name)
    const startedMs = this.#options.nowMs()
    try {
      return await ask()
    } finally {
      const tookMs = this.#options.nowMs() - startedMs
      this.#free++
      for (const { name } of causes) this.#leave(name, tookMs)
      if (host !== undefined) this.#note(host, tookMs)
    }
  }

  /** A domain that has no place waits for one of its group, so that those which have some do not make it wait longer. */
  #isFull({ name, group }: Cause): boolean {
    const places = this.#placesOf(name)
    if (group === undefined) return places >= this.#free
    return places > 0 && places >= this.#free - this.#placesOf(group)
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

  #noPlace(cause: string, did: Did): NoPlaceError {
    const { apartMs } = this.#options
    const nowMs = this.#options.nowMs()
    const latestMs = nowMs + waitMs.max
    const knownMs = this.#told.get(did) ?? 0
    // A later moment is one of a clock that was ahead.
    if (knownMs > nowMs && knownMs <= latestMs) return new NoPlaceError(knownMs - nowMs)
    const held = this.#held.get(cause) ?? { places: 0, toldMs: 0, freedEveryMs: 0 }
    const nextMs = Math.max(held.toldMs + Math.max(apartMs, held.freedEveryMs), nowMs + waitMs.min)
    held.toldMs = Math.min(nextMs, latestMs)
    this.#told.set(did, held.toldMs)
    return new NoPlaceError(held.toldMs - nowMs)
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

/** The two last labels of a host stand for its domain. Owners of names below a longer suffix share what one domain has. */
function withDomain(group: string, host: string): Cause[] {
  const domain = /([^.:/]+\.[^.:/]+)\.?(?::\d+)?$/.exec(host)?.[1] ?? host
  return [{ name: `${group} ${domain}`, group }, { name: group }]
}
