/** What the two consumers of a campaign share: they come back after every cut, and note what is wrong with what comes. */
import type { EventBody } from '@tributary/testkit'
import { WebSocket } from 'ws'
import type { Finding, Journal, SeenEvent } from './journal.ts'

/** Which promise of `adversary.md` was broken, and how. */
export interface Breach {
  promise: 'A1' | 'A2' | 'A3' | 'A4' | 'A5' | 'A6' | 'A7'
  what: string
}

export type OnBreach = (breach: Breach) => void

/** How long an event took from its host to the consumer. */
export interface Delay {
  sentAtMs: number
  tookMs: number
}

interface Arrival {
  data: Buffer
  isBinary: boolean
  arrivedMs: number
}

const hintFields = new Set(['seq', 'did', 'time'])
const reconnectMs = 50
/** Of each account, how many of the last events that came are named where one is missing. */
const recentPerAccount = 40
/** How long what has arrived is looked at, before the next arrivals are noted. */
const sliceMs = 3
const faultOf: Partial<Record<Finding, Breach['promise']>> = {
  forged: 'A1',
  altered: 'A1',
  repeated: 'A1',
  'out-of-order': 'A2',
  'made-up-for': 'A2',
}

export abstract class Witness<Seen> {
  readonly journal: Journal<Seen>
  readonly name: string
  readonly delays: Delay[] = []
  readonly findings: Record<Finding, number> = {
    'as-sent': 0,
    hint: 0,
    'made-up-for': 0,
    'read-again': 0,
    forged: 0,
    altered: 0,
    repeated: 0,
    'out-of-order': 0,
  }
  /** Events of all accounts. */
  seen = 0
  protected lastSeq = 0
  readonly #onBreach: OnBreach
  #socket: WebSocket | undefined
  #retry: NodeJS.Timeout | undefined
  #isClosed = false
  readonly #arrived: Arrival[] = []
  readonly #recent = new Map<string, string[]>()
  #isLooking = false

  constructor(name: string, journal: Journal<Seen>, onBreach: OnBreach) {
    this.name = name
    this.journal = journal
    this.#onBreach = onBreach
  }

  /** The address to read from, after the last event that was seen. */
  protected abstract url(): string

  /** WebSocket subprotocols to ask for. */
  protected get protocols(): string[] {
    return []
  }

  protected abstract take(data: Buffer, isBinary: boolean, arrivedMs: number): void

  connect(): void {
    const socket = new WebSocket(this.url(), this.protocols)
    this.#socket = socket
    socket.on('message', (data: Buffer, isBinary) => this.#arrive(data, isBinary))
    // A service that is being started refuses: 'close' follows.
    socket.on('error', () => undefined)
    socket.on('close', () => {
      if (!this.#isClosed) this.#retry = setTimeout(() => this.#reconnect(), reconnectMs)
    })
  }

  /** After everything that has arrived was looked at: only then it is known where to go on. */
  #reconnect(): void {
    if (this.#isLooking) this.#retry = setTimeout(() => this.#reconnect(), reconnectMs)
    else this.connect()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retry)
    this.#socket?.terminate()
  }

  /** How many events of honest hosts were sent at least `forMs` before `nowMs`, and have not come. */
  missing(nowMs: number, forMs: number): number {
    return this.journal.missing(nowMs, forMs).length
  }

  /** The last events of an account that came, the oldest first. */
  recentOf(did: string): readonly string[] {
    return this.#recent.get(did) ?? []
  }

  /** Only notes the moment: a look at the event would delay the next ones. */
  #arrive(data: Buffer, isBinary: boolean): void {
    this.#arrived.push({ data, isBinary, arrivedMs: performance.now() })
    if (this.#isLooking) return
    this.#isLooking = true
    setImmediate(() => this.#look())
  }

  #look(): void {
    const startMs = performance.now()
    while (this.#arrived.length > 0 && performance.now() - startMs < sliceMs) {
      const { data, isBinary, arrivedMs } = this.#arrived.shift() as Arrival // there is one
      this.take(data, isBinary, arrivedMs)
    }
    this.#isLooking = this.#arrived.length > 0
    if (this.#isLooking) setImmediate(() => this.#look())
  }

  protected breach(promise: Breach['promise'], what: string): void {
    this.#onBreach({ promise, what: `${this.name}: ${what}` })
  }

  /** Numbers go up, also after a cut. */
  protected checkSeq(seq: unknown): void {
    if (typeof seq !== 'number' || seq <= this.lastSeq) {
      this.breach('A1', `seq ${String(seq)} came after ${this.lastSeq}`)
    }
    this.lastSeq = Number(seq)
  }

  protected hold(event: SeenEvent, seen: Seen, arrivedMs: number): void {
    if (!this.journal.has(event.did)) return
    const { finding, sent } = this.journal.find(event, seen)
    this.findings[finding]++
    const recent = this.#recent.get(event.did) ?? []
    this.#recent.set(event.did, [
      ...recent.slice(1 - recentPerAccount),
      `${this.lastSeq} ${event.key} ${finding}`,
    ])
    if (sent) this.delays.push({ sentAtMs: sent.sentAtMs, tookMs: arrivedMs - sent.sentAtMs })
    const promise = faultOf[finding]
    if (promise) this.breach(promise, `${finding}: ${event.key} of ${event.did}: ${event.detail}`)
  }
}

/** What tells an event from all others of its account. */
export function keyOf(type: string, body: EventBody): string {
  return `${type} ${String(type === '#commit' || type === '#sync' ? body['rev'] : body['time'])}`
}

/** The fields of an event, in brief. */
export function describeBody(body: EventBody): string {
  const { blocks: _, ops: __, ...rest } = body
  return JSON.stringify(rest).slice(0, 400)
}

/** Whether an `#identity` says nothing but whose it is: such a hint may come from anybody. */
export function isHint(type: string, body: EventBody): boolean {
  return type === '#identity' && Object.keys(body).every((field) => hintFields.has(field))
}
