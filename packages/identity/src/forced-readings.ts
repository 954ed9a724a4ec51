/**
 * Bounds how often claims of others make us read a document again that would have been good for longer: per host that makes
 * the claims, for one DID and for all. What a host claims of an account of others costs their own claims nothing. First
 * contact is free, and so are two more looks in the minute after it, because an account
 * that moves announces itself two or three times.
 */
import { TokenBucket } from '@tributary/rates'
import { RecentMap } from './recent-map.ts'

/** What the bounds of one DID are counted by. */
export interface LooksTaken {
  /** When the DID was read for the first time. */
  firstReadMs: number
  /** Looks that were free since then. */
  freeTaken: number
  /** When all that a host forced would be over at one in `perDid.everyMs`, of hosts for which that is to come. */
  forcedUntilMs: Map<string, number> | undefined
}

/** A move to another host needs two or three new looks at once, because its events do not all come at the same moment. */
const perDid = { everyMs: 30_000, burst: 3 }
const perHost = { perSecond: 10, burst: 50 }
const afterContact = { withinMs: 60_000, free: 2 }
const hostsMax = 20_000
/** Longest time that a host's look is put off for. */
const waitMsMax = 60_000

interface HostShare {
  bucket: TokenBucket
  /** The latest moment that somebody who had to wait was told. */
  toldMs: number
}

export class ForcedReadings {
  readonly #nowMs: () => number
  readonly #hosts = new RecentMap<string, HostShare>(hostsMax)

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /**
   * Counts one more look at a DID.
   * @param host whose claims make it necessary.
   * @param isPurged the account's own host announced a change: that counts for the host, not for the DID.
   * @returns the milliseconds until the look may be taken; 0 when it may be now. Only then does it count.
   */
  take(did: LooksTaken, { host, isPurged }: { host: string | undefined; isPurged: boolean }): number {
    const now = this.#nowMs()
    if (now - did.firstReadMs < afterContact.withinMs && did.freeTaken < afterContact.free) {
      did.freeTaken++
      return 0
    }
    const forcedUntilMs = did.forcedUntilMs?.get(host ?? '') ?? now
    // Further away it was noted by a clock that was ahead.
    const isOfClock = forcedUntilMs > now + perDid.burst * perDid.everyMs
    const untilMs = isOfClock ? now : Math.max(forcedUntilMs, now)
    const didWaitMs = isPurged ? 0 : untilMs - (perDid.burst - 1) * perDid.everyMs - now
    const waitMs = didWaitMs > 0 ? didWaitMs : this.#takeOfHost(host, now)
    if (waitMs === 0 && !isPurged) noteForced(did, host ?? '', untilMs + perDid.everyMs, now)
    return waitMs
  }

  #takeOfHost(host: string | undefined, now: number): number {
    if (host === undefined) return 0
    let share = this.#hosts.get(host)
    if (!share) {
      share = { bucket: new TokenBucket(perHost, this.#nowMs), toldMs: 0 }
      this.#hosts.set(host, share)
    }
    const { isTaken, waitMs } = share.bucket.take(0)
    if (isTaken) return 0
    // Each is told a moment of its own, so that thousands that wait do not all ask again for every look.
    const nextMs = Math.max(share.toldMs + 1000 / perHost.perSecond, now + waitMs)
    share.toldMs = Math.min(nextMs, now + waitMsMax)
    return share.toldMs - now
  }
}

/** Hosts for which nothing is to come are forgotten: the others are few, because a host may force few readings. */
function noteForced(did: LooksTaken, host: string, untilMs: number, now: number): void {
  const forced = (did.forcedUntilMs ??= new Map<string, number>())
  for (const [each, endMs] of forced) if (endMs <= now) forced.delete(each)
  forced.set(host, untilMs)
}
