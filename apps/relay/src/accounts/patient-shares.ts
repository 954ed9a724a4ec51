import type { Did } from '@tributary/protocol'
import { SharedPlaces } from '@tributary/rates'

export interface PatientSharesOptions {
  /** What the source of a host is. Undefined when there is none. */
  kindOf: (cause: string) => 'pds' | 'relay' | undefined
  /** Whether a host is a source that is read, so that it may bring what it says. */
  isRead: (host: string) => boolean
}

/** A count of accounts that is bounded. */
export interface Share {
  name: string
  max: number
}

/** Whose account waits, and because of which source. */
export interface Waits {
  did: Did
  cause: string
  /** The host that the account's document names, if that is known. */
  host: string | undefined
}

/**
 * How an account fares that waits for its turn: an attempt for it was of no use, or it has to wait for long before the next
 * one; or its host is silent; or neither is so.
 */
export type Standing = 'fruitless' | 'silent' | 'fresh'

/** Accounts that wait for their turn, by their narrowest share. */
type Waiting = Record<Standing, SharedPlaces<Did>>

/** Most accounts that wait. Further accounts keep their mark, and come when there is room. */
const all: Share = { name: '*', max: 20_000 }
/**
 * Most accounts that wait because of a source. Each host behind a relay has a share of the relay's. Accounts of a PDS whose
 * documents name a host that nobody brings have one of their own: there is nothing to fetch for them, and users make as
 * many as they like. So have accounts of did:web while their documents are not known, because users run the hosts that
 * have those, which may never answer.
 */
const sharesMax = { perPds: 2000, perPdsElsewhere: 100, perRelay: 4000, perRelayAndHost: 500, didWeb: 100 }

/**
 * How many accounts may wait because of a source, so that one host does not use up what accounts of others need; and which
 * of them gives way when too many do, because anybody can have accounts that are never made whole.
 */
export class PatientShares {
  readonly #options: PatientSharesOptions
  readonly #counts = new Map<string, number>()
  /** By share, those that are the narrowest of an account excepted. */
  readonly #waiting = new Map<string, Waiting>()

  constructor(options: PatientSharesOptions) {
    this.#options = options
  }

  /** The shares that an account counts for whatever its host is. */
  ofCause(cause: string): Share[] {
    return [all, this.#ofAll(cause)]
  }

  /** The shares that an account counts for. The last one is the narrowest. */
  of({ did, cause, host }: Waits): Share[] {
    if (host === undefined && isDidWeb(did)) return [all, { name: `${cause} did:web`, max: sharesMax.didWeb }]
    const { kindOf, isRead } = this.#options
    const ofCause = this.ofCause(cause)
    if (kindOf(cause) === 'relay')
      return [...ofCause, { name: `${cause} ${nameOf(host)}`, max: sharesMax.perRelayAndHost }]
    const isElsewhere = cause !== '' && host !== undefined && host !== cause && !isRead(host)
    return isElsewhere ? [all, { name: `${cause} elsewhere`, max: sharesMax.perPdsElsewhere }] : ofCause
  }

  /** Whether no account more may count for these. */
  isFull(shares: readonly Share[]): boolean {
    return shares.some(({ name, max }) => (this.#counts.get(name) ?? 0) >= max)
  }

  count(shares: readonly Share[], change: number): void {
    for (const { name } of shares) {
      const count = (this.#counts.get(name) ?? 0) + change
      if (count > 0) this.#counts.set(name, count)
      else {
        this.#counts.delete(name)
        this.#waiting.delete(name)
      }
    }
  }

  /** An account that counts for these waits for its turn from now on, after the others that fare like it. */
  list(did: Did, shares: readonly Share[], standing: Standing): void {
    this.unlist(did, shares)
    const narrowest = shares.at(-1)?.name ?? ''
    for (const { name } of shares.slice(0, -1)) {
      const waiting = this.#waiting.get(name) ?? newWaiting()
      this.#waiting.set(name, waiting)
      waiting[standing].add(narrowest, did)
    }
  }

  /** It is the account's turn, or the account does not wait any more. */
  unlist(did: Did, shares: readonly Share[]): void {
    for (const { name } of shares)
      for (const places of Object.values(this.#waiting.get(name) ?? {})) places.delete(did)
  }

  /**
   * The account that gives way to a newcomer which is to count for these. In a share that is the narrowest, it is the
   * one whose fruitless attempt is longest ago. In a wider one it comes from where most are that had one, then from where
   * most wait for silent hosts, and then from where more wait than where the newcomer would. So a host that answers, and has
   * few accounts that wait, loses none of them, however many accounts of others come, and how fast.
   * @returns undefined when there is room, or nobody gives way.
   */
  givingWayTo(shares: readonly Share[]): Did | undefined {
    const full = shares.findLast((share) => this.isFull([share]))
    if (!full) return undefined
    const waiting = this.#waiting.get(full.name)
    if (!waiting) return this.#waiting.get(all.name)?.fruitless.oldestOf(full.name)
    for (const places of [waiting.fruitless, waiting.silent])
      if (places.largest !== undefined) return places.oldestOf(places.largest)
    const { fresh } = waiting
    const { largest = '' } = fresh
    const isLarger = fresh.of(largest) > fresh.of(shares.at(-1)?.name ?? '') + 1
    return isLarger ? fresh.oldestOf(largest) : undefined
  }

  #ofAll(cause: string): Share {
    const isRelay = this.#options.kindOf(cause) === 'relay'
    return isRelay ? { name: `${cause} *`, max: sharesMax.perRelay } : { name: cause, max: sharesMax.perPds }
  }
}

function newWaiting(): Waiting {
  return { fruitless: new SharedPlaces(), silent: new SharedPlaces(), fresh: new SharedPlaces() }
}

/** Whether a host that the account's owner names has the document. */
export function isDidWeb(did: Did): boolean {
  return did.startsWith('did:web:')
}

/** A host without its port. */
function nameOf(host = ''): string {
  return host.replace(/:\d+$/, '').toLowerCase()
}
