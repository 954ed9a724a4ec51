/**
 * Where DID documents are read: the PLC directory and the hosts of `did:web`. How many requests go out a second, and how
 * many are under way, is bounded here; whoever would have to wait for long is told when to come back instead. The two
 * are counted apart, and of `did:web`, where anybody can name hosts that never answer, nobody may cause more than a share.
 */
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { setTimeout } from 'node:timers/promises'
import { isDid, type Did } from '@tributary/protocol'
import { FetchError } from './fetch-error.ts'
import { normalizeHost, type PrivateHosts } from './host.ts'
import { IdentityError } from './identity-error.ts'
import type { NameServers } from './public-lookup.ts'
import { RecentMap } from './recent-map.ts'
import { safeFetch, type SafeResponse } from './safe-fetch.ts'
import { TokenBucket } from './token-bucket.ts'

export interface DocumentSourceOptions extends PrivateHosts, NameServers {
  /** The PLC directory. It is the operator's choice, so it may be on any address. */
  plcUrl: string
  /** Requests to the PLC directory a second. Default 500. */
  plcPerSecond?: number
  /** Documents of `did:web` that one host may cause to be read at a time, of 256 in all. Default 64. */
  webPerCauseMax?: number
  /** Bytes of a DID document. Default 1,000,000. */
  documentBytesMax?: number
  /** Milliseconds to read one. Default 5,000. */
  timeoutMs?: number
  /** Redirects that a `did:web` may make. Default 3. */
  redirectsMax?: number
  /** The time in milliseconds since 1970. */
  nowMs?: () => number
  /** Waits for so many milliseconds. */
  delay?: (ms: number) => Promise<void>
}

const webPerSecond = 10
const webHostsMax = 10_000
/** How long a request may wait for its turn. */
const turnMsMax = 5000
/** Requests under way. One for a `did:web` counts while it waits for its turn too, which is that of its own host alone. */
const requestsMax = { plc: 256, web: 256 }
/** When to come back if all requests that may be under way are. */
const busyRetryMs = 1000
const retryAfterMsMax = 120_000
const plcPattern = /^did:plc:[a-z2-7]{24}$/

interface Place {
  url: string
  bucket: TokenBucket
  /** Connections are kept for the one host that is asked all the time. */
  agent: HttpAgent | false
  allowedPrivateHosts: readonly string[]
}

export class DocumentSource {
  readonly #options: DocumentSourceOptions
  readonly #nowMs: () => number
  readonly #plcUrl: string
  readonly #plcBucket: TokenBucket
  readonly #plcAgent: HttpAgent
  readonly #webBuckets = new RecentMap<string, TokenBucket>(webHostsMax)
  readonly #webPerCauseMax: number
  #plcUnderWay = 0
  #webUnderWay = 0
  /** The part of those that each host causes; '' where none is known. */
  readonly #webByCause = new Map<string, number>()

  constructor(options: DocumentSourceOptions) {
    const { plcUrl, plcPerSecond = 500, webPerCauseMax = requestsMax.web / 4, nowMs = Date.now } = options
    this.#options = options
    this.#nowMs = nowMs
    this.#webPerCauseMax = webPerCauseMax
    this.#plcUrl = plcUrl.replace(/\/$/, '')
    this.#plcBucket = new TokenBucket(plcPerSecond, plcPerSecond, nowMs)
    const Agent = plcUrl.startsWith('https:') ? HttpsAgent : HttpAgent
    this.#plcAgent = new Agent({ keepAlive: true, maxSockets: requestsMax.plc })
  }

  /**
   * Why a reading must not begin now, if so. That is for whoever wants to begin it, and says nothing of the DID: it may
   * be read for another host.
   */
  refusal(did: Did, onBehalfOf = ''): IdentityError | undefined {
    if (plcPattern.test(did)) return undefined
    const isShareUsed = (this.#webByCause.get(onBehalfOf) ?? 0) >= this.#webPerCauseMax
    return isShareUsed || this.#webUnderWay >= requestsMax.web ? tooMany(busyRetryMs) : undefined
  }

  /**
   * Reads what is published for a DID, which may be anything. Call it only if there is no `refusal`.
   * @param onBehalfOf the host that causes it; all that is read for nobody in particular has one share.
   * @throws IdentityError
   */
  async read(did: Did, onBehalfOf = ''): Promise<unknown> {
    const place = this.#locate(did)
    if (plcPattern.test(did)) return await this.#readPlc(did, place)
    const { isTaken, waitMs } = place.bucket.take(turnMsMax)
    if (!isTaken) throw tooMany(waitMs)
    this.#countWeb(onBehalfOf, 1)
    try {
      if (waitMs > 0) await this.#delay(waitMs)
      return await this.#fetch(did, place)
    } finally {
      this.#countWeb(onBehalfOf, -1)
    }
  }

  async #readPlc(did: Did, place: Place): Promise<unknown> {
    const { isTaken, waitMs } = place.bucket.take(turnMsMax)
    if (!isTaken) throw tooMany(waitMs)
    // Whoever waits for a turn holds nobody up: only requests under way are bounded.
    if (waitMs > 0) await this.#delay(waitMs)
    if (this.#plcUnderWay >= requestsMax.plc) throw tooMany(busyRetryMs)
    this.#plcUnderWay++
    try {
      return await this.#fetch(did, place)
    } finally {
      this.#plcUnderWay--
    }
  }

  #countWeb(cause: string, change: 1 | -1): void {
    this.#webUnderWay += change
    const underWay = (this.#webByCause.get(cause) ?? 0) + change
    if (underWay === 0) this.#webByCause.delete(cause)
    else this.#webByCause.set(cause, underWay)
  }

  async #delay(ms: number): Promise<void> {
    await (this.#options.delay ?? setTimeout)(ms)
  }

  async #fetch(did: Did, { url, agent, allowedPrivateHosts }: Place): Promise<unknown> {
    const { documentBytesMax = 1_000_000, timeoutMs = 5000, redirectsMax = 3, nameServers } = this.#options
    const headers = { accept: 'application/did+ld+json,application/json' }
    try {
      const bounds = { allowedPrivateHosts, bytesMax: documentBytesMax, timeoutMs, redirectsMax }
      const response = await safeFetch(url, {
        ...bounds,
        ...(nameServers && { nameServers }),
        headers,
        agent,
      })
      const { status } = response
      if (status === 404 || status === 410) throw new IdentityError('not-found', `there is no ${did}`)
      if (status !== 200) {
        throw new IdentityError('unavailable', `status ${status} for ${did}`, retryAfter(response))
      }
      return parseJson(response.body, did)
    } catch (cause) {
      if (!(cause instanceof FetchError)) throw cause
      // A name that does not exist is an answer. The PLC directory's name not existing is not one about the DID.
      const isGone = cause.isNameUnknown && !plcPattern.test(did)
      const reason = isGone ? 'not-found' : 'unavailable'
      throw new IdentityError(reason, `the document of ${did} could not be read`, { cause })
    }
  }

  /** Where the document is, for the two methods that the network has. */
  #locate(did: Did): Place {
    const { allowedPrivateHosts } = this.#options
    if (plcPattern.test(did)) {
      const allowed = [...allowedPrivateHosts, new URL(this.#plcUrl).host]
      return {
        url: `${this.#plcUrl}/${did}`,
        bucket: this.#plcBucket,
        agent: this.#plcAgent,
        allowedPrivateHosts: allowed,
      }
    }
    const name =
      did.startsWith('did:web:') && isDid(did) ? did.slice('did:web:'.length).replace(/%3A/i, ':') : ''
    const host = normalizeHost(name, { allowedPrivateHosts })
    if ('error' in host || host.host !== name.toLowerCase())
      throw new IdentityError('invalid', `${did} is not a DID that can be resolved`)
    return {
      url: `${host.url}/.well-known/did.json`,
      bucket: this.#webBucket(host.host),
      agent: false,
      allowedPrivateHosts,
    }
  }

  #webBucket(host: string): TokenBucket {
    let bucket = this.#webBuckets.get(host)
    if (!bucket) {
      bucket = new TokenBucket(webPerSecond, webPerSecond, this.#nowMs)
      this.#webBuckets.set(host, bucket)
    }
    return bucket
  }
}

function tooMany(retryAfterMs: number): IdentityError {
  return new IdentityError('unavailable', 'too many DID documents are asked for', {
    retryAfterMs,
    isOwnLimit: true,
  })
}

/** What a server that wants to be left alone says, in seconds. */
function retryAfter({ headers }: SafeResponse): { retryAfterMs?: number } {
  const seconds = Number(headers['retry-after'])
  return seconds > 0 ? { retryAfterMs: Math.min(seconds * 1000, retryAfterMsMax) } : {}
}

function parseJson(body: Buffer, did: Did): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw new IdentityError('invalid', `the document of ${did} is not JSON`, { cause })
  }
}
