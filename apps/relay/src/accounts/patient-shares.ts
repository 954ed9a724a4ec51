import type { Did } from '@tributary/protocol'

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
 * Most accounts that wait because of a source. Each host behind a relay has a share of the relay's. Accounts of a PDS whose
 * documents name a host that nobody brings have one of their own: there is nothing to fetch for them, and users make as
 * many as they like. So have accounts of did:web while their documents are not known, because users run the hosts that
 * have those, which may never answer.
 */
const sharesMax = { perPds: 2000, perPdsElsewhere: 100, perRelay: 4000, perRelayAndHost: 500, didWeb: 100 }

/** How many accounts may wait because of a source, so that one host does not use up what accounts of others need. */
export class PatientShares {
  readonly #options: PatientSharesOptions
  readonly #counts = new Map<string, number>()

  constructor(options: PatientSharesOptions) {
    this.#options = options
  }

  /** Whether a source has used up what it has for all of its hosts. */
  isUsedUp(cause: string): boolean {
    return this.isFull([this.#ofAll(cause)])
  }

  /** The shares that an account counts for. The last one is the narrowest. */
  of({ did, cause, host }: Waits): Share[] {
    if (host === undefined && isDidWeb(did)) return [{ name: `${cause} did:web`, max: sharesMax.didWeb }]
    const ofAll = this.#ofAll(cause)
    const { kindOf, isRead } = this.#options
    if (kindOf(cause) === 'relay')
      return [ofAll, { name: `${cause} ${nameOf(host)}`, max: sharesMax.perRelayAndHost }]
    const isElsewhere = cause !== '' && host !== undefined && host !== cause && !isRead(host)
    return isElsewhere ? [{ name: `${cause} elsewhere`, max: sharesMax.perPdsElsewhere }] : [ofAll]
  }

  /** Whether no account more may count for these. */
  isFull(shares: readonly Share[]): boolean {
    return shares.some(({ name, max }) => (this.#counts.get(name) ?? 0) >= max)
  }

  count(shares: readonly Share[], change: number): void {
    for (const { name } of shares) {
      const count = (this.#counts.get(name) ?? 0) + change
      if (count > 0) this.#counts.set(name, count)
      else this.#counts.delete(name)
    }
  }

  #ofAll(cause: string): Share {
    const isRelay = this.#options.kindOf(cause) === 'relay'
    return isRelay ? { name: `${cause} *`, max: sharesMax.perRelay } : { name: cause, max: sharesMax.perPds }
  }
}

/** Whether a host that the account's owner names has the document. */
export function isDidWeb(did: Did): boolean {
  return did.startsWith('did:web:')
}

/** A host without its port. */
function nameOf(host = ''): string {
  return host.replace(/:\d+$/, '').toLowerCase()
}
