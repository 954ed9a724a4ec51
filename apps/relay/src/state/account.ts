import type { Did, Tid } from '@tributary/protocol'
import type { Digest } from '@tributary/repo-verify'

/** What an operator may do to an account, whatever its host says. */
export type LocalStatus = 'takendown' | 'suspended'

/** Commits of an account that did not continue what was stored, and since when they are counted. */
export interface Breaks {
  count: number
  sinceMs: number
  areTooMany: boolean
}

/** What the relay knows of one account. @see AccountRows */
export interface Account {
  /** Its place in the table. */
  readonly row: number
  readonly did: Did
  /** Names the account in the event log: the first 64 bits of the SHA-256 of its DID. */
  readonly logId: bigint
  /** Source that spoke for it last. 0 until an event of it has passed. */
  sourceId: number
  /** What its host says: `active`, or a reason why not. */
  upstreamStatus: string
  /** What an operator of this relay decided, whatever its host says. */
  localStatus: LocalStatus | undefined
  /** When it was left out because its host had no slot for it, in milliseconds since 1970. 0 when it is not. */
  throttledAtMs: number
  rev: Tid | undefined
  commit: Digest | undefined
  data: Digest | undefined
  /** An event did not continue what was stored, or events may be missing. Internal; its events still pass. */
  isDesynchronized: boolean
  /** Events were left out here, so that the current commit of its host has to be fetched. */
  isIncomplete: boolean
  /** What its host says beside `active`, such as `desynchronized`. */
  activeNote: string | undefined
  /** Undefined for nearly all. */
  breaks: Breaks | undefined
  /**
   * Relay that named it while none had spoken for it, or since it has left the PDS that spoke for it. It is known after a
   * restart, too.
   */
  namedBy: number | undefined
  /**
   * It is not at the source any more that spoke for it last, and holds no slot there. It is so until a source speaks for it
   * again, also over a restart.
   */
  hasDeparted: boolean
  /** When its host was last asked about it, in milliseconds since 1970. */
  askedAtMs: number
  /** Its events that are under way. It is not forgotten while there are any. */
  underWay: number
}

/** A status as `#account` events and `getRepoStatus` say it. */
export interface PublicStatus {
  active: boolean
  status?: string | undefined
}

/** What a host says of an account, in one word: `active`, or why not. `inactive` when it gives no reason that counts. */
export function statusOf({ active, status }: PublicStatus): string {
  return active ? 'active' : (knownForm(status) ?? 'inactive')
}

/** What a host says of an account beside that it is active. */
export function activeNoteOf({ active, status }: PublicStatus): string | undefined {
  return active ? knownForm(status) : undefined
}

function knownForm(status: string | undefined): string | undefined {
  return status !== undefined && status !== 'active' && /^[a-z-]{1,64}$/.test(status) ? status : undefined
}

/** What this relay says of an account: its operator's word first, then the quota of its host, then its host's word. */
export function publicStatus(account: Account): PublicStatus {
  const { localStatus, throttledAtMs, upstreamStatus, breaks, activeNote } = account
  if (localStatus !== undefined) return { active: false, status: localStatus }
  if (throttledAtMs > 0) return { active: false, status: 'throttled' }
  if (upstreamStatus === 'active') {
    const note = breaks?.areTooMany === true ? 'throttled' : activeNote
    return note === undefined ? { active: true } : { active: true, status: note }
  }
  return upstreamStatus === 'inactive' ? { active: false } : { active: false, status: upstreamStatus }
}

/** Whether what an account wrote is left out of everything that readers get from now on. */
export function isHidden({ localStatus, upstreamStatus }: Account): boolean {
  return localStatus !== undefined || hiddenStatuses.has(upstreamStatus)
}

const hiddenStatuses = new Set(['takendown', 'suspended', 'deleted'])
