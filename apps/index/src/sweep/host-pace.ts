/**
 * The pace at which each host is asked about its accounts. Hosts are asked side by side: whoever comes too early is told when to
 * come back, one after the other. So a host with very many accounts takes its own time for them, and not that of others.
 */
import { RecentMap } from '@tributary/identity'
import { TokenBucket } from '@tributary/rates'
import { NoPlaceError } from '../host-places.ts'

export interface HostPaceOptions {
  /** Between two questions to a host. What a second has room for may be asked at once. */
  readonly apartMs: number
  /** Nobody is told to come back later than this. Of more accounts than have a turn until then, two have the same. */
  readonly withinMs: number
  readonly nowMs: () => number
}

interface Pace {
  readonly bucket: TokenBucket
  /** The latest moment that somebody was told. */
  toldMs: number
}

/** Hosts whose pace is known, those asked last. Another one is asked as if it were new. */
const hostsMax = 10_000
/** A wait is at least so long. */
const waitMsMin = 1000

export class HostPace {
  readonly #options: HostPaceOptions
  readonly #paces = new RecentMap<string, Pace>(hostsMax)

  constructor(options: HostPaceOptions) {
    this.#options = options
  }

  /**
   * Takes a turn of a host.
   * @throws NoPlaceError when it has none now
   */
  take(host: string): void {
    const { apartMs, withinMs, nowMs } = this.#options
    const now = nowMs()
    const perSecond = 1000 / apartMs
    const known = this.#paces.get(host)
    const pace = known ?? {
      bucket: new TokenBucket({ perSecond, burst: Math.max(1, perSecond) }, nowMs),
      toldMs: 0,
    }
    if (known === undefined) this.#paces.set(host, pace)
    if (pace.bucket.take(0).isTaken) return
    const toldMs = Math.max(pace.toldMs + apartMs, now + waitMsMin)
    pace.toldMs = toldMs > now + withinMs ? now + waitMsMin : toldMs
    throw new NoPlaceError(pace.toldMs - now)
  }
}
