/** What the resolver knows of one DID, and for how long that is good. */
import type { Identity } from './did-document.ts'
import type { Reading as SourceReading } from './document-source.ts'
import type { LooksTaken } from './forced-readings.ts'
import { IdentityError, type IdentityFault } from './identity-error.ts'

/** How long what was read stands. */
export const keepMs: { found: number; notFound: number; fault: number; faultMax: number } = {
  found: 86_400_000,
  notFound: 600_000,
  fault: 30_000,
  faultMax: 120_000,
}

/** What is known of one DID. */
export interface Entry extends LooksTaken {
  identity: Identity | undefined
  /** The identity was purged: only its host is still of use. */
  isStale: boolean
  fault: Fault | undefined
  /** Failures in a row. */
  faults: number
  reading: Reading | undefined
}

/** Why the last reading failed. */
export interface Fault {
  reason: IdentityFault
  message: string
  /** When the reading began. */
  atMs: number
  /** From when, and until when it stands. A clock that is ahead may have said so. */
  fromMs: number
  untilMs: number
  /** Something was said of the DID since then. */
  isPurged: boolean
}

export interface Reading {
  source: SourceReading
  identity: Promise<Identity>
  /** When the request was sent; Infinity while it waits for its turn, because then it will show all that is known now. */
  sinceMs: number
  /** A purge came after it had been sent. */
  isStale: boolean
}

export function newEntry(): Entry {
  return {
    identity: undefined,
    isStale: false,
    fault: undefined,
    faults: 0,
    firstReadMs: -Infinity,
    freeTaken: 0,
    forcedUntilMs: undefined,
    reading: undefined,
  }
}

export function goodIdentity({ identity, isStale }: Entry, now: number): Identity | undefined {
  return identity && !isStale && isYoung(identity, now) ? identity : undefined
}

/** After the clock was set back, an identity of a time to come would look fresher than any event. */
export function isYoung({ fetchedAt }: Identity, now: number): boolean {
  return fetchedAt <= now && now < fetchedAt + keepMs.found
}

export function standingFault({ fault }: Entry, now: number): Fault | undefined {
  return fault && fault.fromMs <= now && now < fault.untilMs ? fault : undefined
}

/** A fault stands for a while, but what was published does not outlive the need for a newer look. */
export function throwFault(entry: Entry, refreshAfter: number, now: number): void {
  const fault = standingFault(entry, now)
  if (!fault || fault.isPurged) return
  const { reason, message, atMs, untilMs } = fault
  const error = new IdentityError(reason, message, { retryAfterMs: untilMs - now })
  if (error.retryable || atMs >= refreshAfter) throw error
}
