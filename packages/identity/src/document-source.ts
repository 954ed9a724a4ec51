/**
 * Where DID documents are read: the PLC directory and the hosts of `did:web`. How many requests go out a second, and how
 * many are under way, is bounded for each of the two, and the hosts that cause readings take turns.
 */
import type { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { isDid, type Did } from '@tributary/protocol'
import { TokenBucket } from '@tributary/rates'
import { DirectoryHealth } from './directory-health.ts'
import { FetchError } from './fetch-error.ts'
import { normalizeHost, type PrivateHosts } from './host.ts'
import { IdentityError, type IdentityFault } from './identity-error.ts'
import type { NameServers } from './public-lookup.ts'
import { RecentMap } from './recent-map.ts'
import { safeFetch, type SafeResponse } from './safe-fetch.ts'
import { type Turn, Turns } from './turns.ts'

export interface DocumentSourceOptions extends PrivateHosts, NameServers {
  /** The PLC directory. It is the operator's choice, so it may be on any address. */
  plcUrl: string
  /** Requests to the PLC directory a second. Default 500. */
  plcPerSecond?: number
  /** Documents of `did:web` that are read a second. Default 50. */
  webPerSecond?: number
  /**
   * Bytes of a DID document. Default 32,768: four times what the PLC directory takes. Text of a million bytes can be
   * made to hold `JSON.parse`, and with it the event loop, for 270 ms; text of this length for 15 ms.
   */
  documentBytesMax?: number
  /** Milliseconds to read one. Default 5,000. */
  timeoutMs?: number
  /** Redirects that a `did:web` may make. Default 3. */
  redirectsMax?: number
  /** How a document is asked for. Default: over the network. */
  fetch?: typeof safeFetch
  /** The time in milliseconds since 1970. */
  nowMs?: () => number
  /** Waits for so many milliseconds. */
  delay?: (ms: number) => Promise<void>
}

/** Readings of one host's document: nobody needs more. */
const webPerHost = { perSecond: 10, burst: 10 }
const webHostsMax = 10_000
const plcTurns = { perSecond: 500, placesMax: 256, waitingMax: 4096, waitMsMax: 5000 }
/** Anybody can name hosts that never answer, and such an answer costs a connection and a handshake. */
const webTurns = { perSecond: 50, placesMax: 256, waitingMax: 512, waitMsMax: 5000 }
/** A failure within this time is one of the directory, and not of the DID that was asked for. */
const atOnceMs = 1000
/**
 * While questions wait for their turn, answers are handed on together, after so long. What follows an answer, such as a
 * verifying thread that wakes up and a write to the log, then costs once for many.
 */
const gatherMs = 5
const retryAfterSeconds = { min: 1, max: 120 }
const plcPattern = /^did:plc:[a-z2-7]{24}$/

interface Place {
  url: string
  /** Connections are kept for the one host that is asked all the time. */
  agent: HttpAgent | false
  allowedPrivateHosts: readonly string[]
}

/** A document that is to be read. */
export interface Reading {
  did: Did
  place: Place
  turn: Turn
  turns: Turns
}

export class DocumentSource {
  readonly #options: DocumentSourceOptions
  readonly #nowMs: () => number
  readonly #plcUrl: string
  readonly #plcAllowed: readonly string[]
  readonly #plcAgent: HttpAgent
  readonly #delay: (ms: number) => Promise<void>
  readonly #plc: Turns
  readonly #web: Turns
  readonly #health: DirectoryHealth
  readonly #webHosts = new RecentMap<string, TokenBucket>(webHostsMax)
  /** When the answers that wait for each other are handed on. */
  #gathering: Promise<void> | undefined

  constructor(options: DocumentSourceOptions) {
    const { plcUrl, plcPerSecond, webPerSecond, nowMs = Date.now } = options
    const clock = { nowMs, delay: options.delay ?? ((ms: number) => delay(ms)) }
    this.#delay = clock.delay
    this.#options = options
    this.#nowMs = nowMs
    this.#health = new DirectoryHealth(nowMs)
    this.#plcUrl = plcUrl.replace(/\/$/, '')
    this.#plcAllowed = [new URL(plcUrl).host, ...options.allowedPrivateHosts]
    this.#plc = new Turns({ ...plcTurns, ...clock, ...(plcPerSecond && { perSecond: plcPerSecond }) })
    this.#web = new Turns({ ...webTurns, ...clock, ...(webPerSecond && { perSecond: webPerSecond }) })
    // Not imported: a module that imports a value of node:http loads Node's `fetch` with it, 3 MB of memory.
    const http = process.getBuiltinModule('node:http')
    const Agent = plcUrl.startsWith('https:') ? HttpsAgent : http.Agent
    this.#plcAgent = new Agent({ keepAlive: true, maxSockets: plcTurns.placesMax })
  }

  /**
   * Waits for the turn to read a DID, or has it at once.
   * @param onBehalfOf the host that causes it; all that is read for nobody in particular is one cause.
   * @throws IdentityError if the DID cannot be resolved, or too much is waited for.
   */
  enter(did: Did, onBehalfOf = ''): Reading {
    const isPlc = plcPattern.test(did)
    const turns = isPlc ? this.#plc : this.#web
    const place = isPlc ? this.#directory(did) : this.#host(did)
    this.check(did, onBehalfOf)
    if (isPlc) this.#health.noteTry()
    else this.#takeOfHost(place.url)
    return { did, place, turn: turns.enter(onBehalfOf), turns }
  }

  /** @throws IdentityError if `enter` would refuse: the directory is away, or so much is waited for already. */
  check(did: Did, onBehalfOf = ''): void {
    const isPlc = plcPattern.test(did)
    const refusal =
      (isPlc ? this.#health.refusal() : undefined) ?? (isPlc ? this.#plc : this.#web).refusal(onBehalfOf)
    if (refusal) throw refusal
  }

  /** Another host causes the same reading, so it must not wait for the first one's turn alone. */
  join({ turn, turns }: Reading, onBehalfOf = ''): void {
    turns.join(turn, onBehalfOf)
  }

  /**
   * Reads what is published for a DID, which may be anything, when it is its turn.
   * @param onBegun called when the request is about to be sent.
   * @throws IdentityError
   */
  async read({ did, place, turn, turns }: Reading, onBegun: () => void): Promise<unknown> {
    await turn.begun
    try {
      onBegun()
      const document = await this.#fetch(did, place)
      if (turns.areWaitedFor) await this.#gathered()
      return document
    } finally {
      turns.leave(turn)
    }
  }

  /** Resolves at once for all that come within some milliseconds. */
  #gathered(): Promise<void> {
    this.#gathering ??= this.#delay(gatherMs).then(() => void (this.#gathering = undefined))
    return this.#gathering
  }

  async #fetch(did: Did, { url, agent, allowedPrivateHosts }: Place): Promise<unknown> {
    const { documentBytesMax = 32_768, timeoutMs = 5000, redirectsMax = 3, nameServers } = this.#options
    const { fetch = safeFetch } = this.#options
    const headers = { accept: 'application/did+ld+json,application/json' }
    const beganMs = this.#nowMs()
    try {
      const bounds = { allowedPrivateHosts, bytesMax: documentBytesMax, timeoutMs, redirectsMax }
      const response = await fetch(url, {
        ...bounds,
        ...(nameServers && { nameServers }),
        headers,
        agent,
      })
      const { status } = response
      if (status >= 500)
        throw this.#failure(did, beganMs, `status ${status} for ${did}`, retryAfter(response))
      if (plcPattern.test(did)) this.#health.noteAnswer()
      if (status === 404 || status === 410) throw new IdentityError('not-found', `there is no ${did}`)
      if (status !== 200) {
        throw new IdentityError('unavailable', `status ${status} for ${did}`, retryAfter(response))
      }
      return parseJson(response.body, did)
    } catch (cause) {
      if (!(cause instanceof FetchError)) throw cause
      const message = `the document of ${did} could not be read from ${new URL(url).host}`
      // A name that does not exist is an answer. The PLC directory's name not existing is not one about the DID.
      if (cause.isNameUnknown && !plcPattern.test(did))
        throw new IdentityError('not-found', message, { cause })
      throw this.#failure(did, beganMs, message, { cause })
    }
  }

  /** Nothing was learnt of a DID. A directory that fails at once fails all; one that hangs may hang for this DID alone. */
  #failure(
    did: Did,
    beganMs: number,
    message: string,
    options: { retryAfterMs?: number; cause?: unknown },
  ): IdentityError {
    const isAtOnce = this.#nowMs() - beganMs < atOnceMs
    if (!plcPattern.test(did) || !isAtOnce) return new IdentityError('unavailable', message, options)
    this.#health.noteFailure(did)
    return new IdentityError('unavailable', message, {
      retryAfterMs: this.#health.retryAfterMs(),
      ...options,
    })
  }

  #directory(did: Did): Place {
    return {
      url: `${this.#plcUrl}/${did}`,
      agent: this.#plcAgent,
      allowedPrivateHosts: this.#plcAllowed,
    }
  }

  #host(did: Did): Place {
    const { allowedPrivateHosts } = this.#options
    const name =
      did.startsWith('did:web:') && isDid(did) ? did.slice('did:web:'.length).replace(/%3A/i, ':') : ''
    const host = normalizeHost(name, { allowedPrivateHosts })
    if ('error' in host || host.host !== name.toLowerCase())
      throw new IdentityError('invalid', `${did} is not a DID that can be resolved`)
    return { url: `${host.url}/.well-known/did.json`, agent: false, allowedPrivateHosts }
  }

  #takeOfHost(url: string): void {
    let bucket = this.#webHosts.get(url)
    if (!bucket) {
      bucket = new TokenBucket(webPerHost, this.#nowMs)
      this.#webHosts.set(url, bucket)
    }
    const { isTaken, waitMs } = bucket.take(0)
    if (isTaken) return
    throw new IdentityError('unavailable', 'this document is read all the time', {
      retryAfterMs: waitMs,
      isOwnLimit: true,
    })
  }
}

/** What a server that wants to be left alone says, if it is a number of seconds. */
function retryAfter({ headers }: SafeResponse): { retryAfterMs?: number } {
  const text = headers['retry-after'] ?? ''
  if (!/^\d+$/.test(text)) return {}
  const { min, max } = retryAfterSeconds
  return { retryAfterMs: Math.min(Math.max(Number(text), min), max) * 1000 }
}

function parseJson(body: Buffer, did: Did): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw new IdentityError(faultOfDocument(did), `the document of ${did} is not JSON`, { cause })
  }
}

/**
 * What it means that an answer is not the document of a DID. A did:web is what its owner publishes. The PLC directory has
 * checked what it gives, so that another answer is the fault of somebody on the way, and passes.
 */
export function faultOfDocument(did: Did): IdentityFault {
  return plcPattern.test(did) ? 'unavailable' : 'invalid'
}
