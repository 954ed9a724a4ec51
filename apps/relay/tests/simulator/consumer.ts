/**
 * A consumer of the firehose, and the model of what it must get: from any cursor each record after it, in order and
 * soon, except for what hidden accounts wrote, or else an error by its name. It is ended only for what it does.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { randomFrom, type Random } from '@tributary/testkit/disk'
import {
  clientFrame,
  ConsumerSocket,
  firstFrame,
  opcodeOf,
  opcodes,
  payloadOf,
  type Pace,
} from '@tributary/testkit/simulation'
import { seqOf, toldIn, type Told } from './consumer-frames.ts'
import { EndReasons } from './end-reasons.ts'
import type { RelayProcess } from './relay-process.ts'
import type { Step } from './script.ts'
import type { Seen, Watch } from './watch.ts'

export type Join = Extract<Step, { do: 'join' }>
/** Where a consumer begins: after what it has handled, with what comes next, at the start, and so on. */
type CursorWish = Join['cursor']
export type Chat = Extract<Step, { do: 'chat' }>['how']

/** How likely retention is applied while a consumer replays, and how long a replay reads, about. */
const retentionChance = 0.3
const readMs = 10
const redialMs = { min: 10, max: 1000 }
/** A message may wait so long to be sent together with others. */
const flushMsMax = 60
/** How long a consumer that takes everything waits for a record at most, while the disk is as it should be. */
const lateMs = 6000
/** With so many readers messages are sent at once, and some time after there were more. */
const few = { readers: 8, afterMs: 100 }

export class Consumer {
  readonly name: string
  /** Some share one. */
  readonly address: string
  readonly #watch: Watch
  readonly #random: Random
  #relay: RelayProcess | undefined
  #socket: ConsumerSocket | undefined
  #join: Join | undefined
  pace: Pace = 'fast'
  /** The newest seq that it has handled. */
  #cursor: number | undefined
  #inbox: Buffer = Buffer.alloc(0)
  #isGreeted = false
  /** It got a record at the moment at which that became visible, and has taken everything since. */
  #isLive = false
  #connectedAtMs = 0
  /** It has everything up to here, and the next record that it gets is the place of this one in `records`. */
  #next = 0
  /** What it has to be told first. */
  #expected: 'FutureCursor' | 'OutdatedCursor' | undefined
  #ends: EndReasons | undefined

  constructor(index: number, seed: number, watch: Watch) {
    this.name = `consumer ${index}`
    this.address = `203.0.113.${index >> 1}`
    this.#watch = watch
    this.#random = randomFrom(seed + index)
  }

  /** A relay has started, and can be dialled. */
  attach(relay: RelayProcess): void {
    this.cut()
    this.#relay = relay
    if (this.#join) this.#redial()
  }

  /** The network ends the connection, or the relay is gone. */
  cut(): void {
    this.#noteCrowd()
    this.#socket?.destroy()
    this.#socket = undefined
  }

  /** The relay is gone. */
  detach(): void {
    this.cut()
    this.#relay = undefined
  }

  /** Connects, or connects again, as a step says. After that it comes back with its own cursor by itself. */
  join(join: Join): void {
    this.cut()
    this.#join = join
    this.pace = join.pace
    if (this.#relay) this.#dial(join.cursor)
  }

  leave(): void {
    this.cut()
    this.#join = undefined
  }

  setPace(pace: Pace): void {
    this.pace = pace
    this.#isLive = false
    if (this.#socket) this.#socket.pace = pace
  }

  /** Sends something, which no consumer has to. */
  chat(how: Chat): void {
    const socket = this.#socket
    if (!socket || !this.#isGreeted) return
    this.#watch.note(`${this.name} sends ${how}`)
    for (const message of this.#ends?.chat(how) ?? []) socket.push(message)
  }

  /** Connected, and so on the list of consumers. */
  get isConnected(): boolean {
    return this.#socket !== undefined && this.#expected !== 'FutureCursor'
  }

  get isJoined(): boolean {
    return this.#join !== undefined
  }

  /** What must hold at every moment. */
  now(nowMs: number): void {
    const socket = this.#socket
    const fault = socket && this.#ends?.overdue(socket, nowMs)
    if (fault !== undefined) this.#broken(fault)
    else if (socket?.pace === 'fast') this.#isServed(socket, nowMs)
  }

  /** What it still has to get, when nothing is in its way. */
  faults(): string[] {
    if (!this.#join) return []
    if (!this.#socket) return [`${this.name} is not connected`]
    const missing = this.#missing
    return missing ? [`${this.name} does not get ${missing.seq}`] : []
  }

  /** A2: a consumer that takes everything gets everything soon, whatever the others do. */
  #isServed(socket: ConsumerSocket, nowMs: number): void {
    const missing = this.#missing
    if (!missing || !this.#relay || this.#relay.hasFailed) return
    const { conditions } = this.#watch.world
    const diskMs = conditions.oddUntilMs('disk')
    const sinceMs = Math.max(missing.visibleAtMs, this.#connectedAtMs, socket.paceSinceMs, diskMs)
    if (nowMs - sinceMs > lateMs) this.#broken(`waits for ${missing.seq} since ${sinceMs}`)
  }

  /** The first record that it has not got and must get. */
  get #missing(): Seen | undefined {
    const { records } = this.#watch
    for (let at = this.#next; at < records.length; at++) {
      const seen = records[at]
      if (seen && !this.#mayMiss(seen)) return seen
    }
    return undefined
  }

  #redial(): void {
    const ms = redialMs.min + this.#random.next() * (redialMs.max - redialMs.min)
    this.#relay?.clock.after(ms, () => {
      if (this.#join && !this.#socket) this.#dial('own')
    })
  }

  #dial(wish: CursorWish): void {
    const relay = this.#relay
    if (!relay?.isListening || !this.#join) return
    const { log, firehose } = relay.parts
    const cursor = this.#cursorFor(wish, log)
    const ends = new EndReasons(this.#watch.world)
    const socket = new ConsumerSocket(this.pace, {
      clock: relay.clock,
      random: this.#random,
      onBytes: (bytes, writtenAtMs) => this.#take(bytes, writtenAtMs),
      onWritten: (bytes) => {
        this.#noteCrowd()
        ends.written(bytes, socket)
      },
      onTaken: () => this.#deleteAmidReads(relay),
    })
    this.#socket = socket
    this.#ends = ends
    this.#inbox = Buffer.alloc(0)
    this.#isGreeted = this.#isLive = false
    this.#connectedAtMs = relay.clock.elapsedMs()
    const isFuture = cursor !== undefined && cursor >= log.nextSeq
    const isOutdated = cursor !== undefined && cursor > 0 && cursor < log.lastDeletedSeq
    this.#expected = isFuture ? 'FutureCursor' : isOutdated ? 'OutdatedCursor' : undefined
    this.#next = this.#placeAfter(Math.max(cursor ?? Infinity, log.lastDeletedSeq))
    this.#watch.note(`${this.name} joins after ${cursor}`)
    socket.once('close', () => {
      if (this.#socket !== socket) return
      this.#socket = undefined
      const fault = relay.hasFailed ? undefined : ends.faultOfClose()
      if (fault !== undefined) this.#broken(fault)
      this.#redial()
    })
    this.#deleteAmidReads(relay)
    firehose.subscribe(
      requestOf(this.#join.framing),
      socket as unknown as Socket, // all of a socket that the fan-out uses
      Buffer.alloc(0),
      this.address,
      cursor,
    )
    this.#noteCrowd()
  }

  #noteCrowd(): void {
    const size = this.#relay?.hasStarted ? this.#relay.parts.firehose.fanout.size : 0
    if (size > few.readers) this.#watch.crowdedAtMs = this.#watch.world.time.nowMs
  }

  /** A2: where readers are few, whoever is live gets each record as soon as it is there. */
  #isPrompt({ seq, visibleAtMs }: Seen, writtenAtMs: number): void {
    const isAtOnce = writtenAtMs <= visibleAtMs
    const mayWait = this.#join?.framing !== 'v0' || visibleAtMs - this.#watch.crowdedAtMs < few.afterMs
    if (this.#isLive && !isAtOnce && !mayWait) this.#broken(`is live, and waits for ${seq}`)
    const { pace, paceSinceMs = 0 } = this.#socket ?? {}
    this.#isLive = isAtOnce && pace === 'fast' && paceSinceMs < writtenAtMs
  }

  /** Deletes old files while one of them is being read. */
  #deleteAmidReads({ clock, parts, hasFailed }: RelayProcess): void {
    if (this.#random.next() >= retentionChance || hasFailed) return
    clock.after(this.#random.next() * readMs, () => void parts.log.applyRetention())
  }

  #cursorFor(
    wish: CursorWish,
    { nextSeq, lastDeletedSeq }: { nextSeq: number; lastDeletedSeq: number },
  ): number | undefined {
    const { records } = this.#watch
    if (wish === 'none') return undefined
    if (wish === 'start') return 0
    if (wish === 'edge') return nextSeq - 1 + this.#random.below(3)
    if (wish === 'oldest') return lastDeletedSeq + this.#random.below(2)
    if (wish === 'future') return nextSeq + this.#random.below(1000)
    if (wish === 'back' && records.length > 0) return this.#random.pick(records).seq - this.#random.below(2)
    return this.#cursor
  }

  #placeAfter(seq: number): number {
    const { records } = this.#watch
    const next = records.findIndex((seen) => seen.seq > seq)
    return next < 0 ? records.length : next
  }

  #take(bytes: Buffer, writtenAtMs: number): void {
    this.#inbox = Buffer.concat([this.#inbox, bytes])
    if (!this.#isGreeted) {
      const end = this.#inbox.indexOf('\r\n\r\n')
      if (end < 0) return
      if (!this.#inbox.toString('latin1', 0, end).startsWith('HTTP/1.1 101'))
        return this.#broken('is not let in')
      this.#inbox = this.#inbox.subarray(end + 4)
      this.#isGreeted = true
    }
    for (let frame = firstFrame(this.#inbox); frame && this.#socket; frame = firstFrame(this.#inbox)) {
      this.#inbox = this.#inbox.subarray(frame.length)
      const opcode = opcodeOf(frame)
      if (opcode === opcodes.close) this.#socket.destroy()
      else if (opcode === opcodes.ping) this.#answer(this.#socket, frame)
      else if (opcode !== opcodes.pong) this.#message(frame, opcode === opcodes.text, writtenAtMs)
    }
  }

  #answer(socket: ConsumerSocket, ping: Buffer): void {
    this.#ends?.pinged()
    if (this.pace !== 'mute') socket.push(clientFrame(opcodes.pong, payloadOf(ping)))
  }

  #message(frame: Buffer, isText: boolean, writtenAtMs: number): void {
    const at = this.#expected === undefined ? this.#placeOf(frame, isText) : undefined
    if (at !== undefined) return this.#handle(at, writtenAtMs)
    const told = toldIn(frame)
    if (told) this.#hear(told)
    else this.#broken(`gets something else than ${this.#watch.records[this.#next]?.seq}`)
  }

  /** The place of a message among the records that may come now. */
  #placeOf(frame: Buffer, isText: boolean): number | undefined {
    const { records } = this.#watch
    const seq = isText ? seqOf(frame) : undefined
    for (let at = this.#next; at < records.length; at++) {
      const seen = records[at]
      if (!seen) break
      if (isText ? seen.seq === seq : seen.frame.equals(frame)) return at
      if (!this.#mayMiss(seen)) break
    }
    return undefined
  }

  #handle(at: number, writtenAtMs: number): void {
    const seen = this.#watch.records[at]
    if (!seen) return
    this.#next = at + 1
    this.#cursor = seen.seq
    this.#isPrompt(seen, writtenAtMs)
    const hidden = this.#watch.hidden.get(seen.did)
    const wasHidden = hidden?.untilMs === Infinity && hidden.fromMs + flushMsMax < writtenAtMs
    if (seen.isContent && wasHidden) this.#broken(`gets ${seen.seq} of an account that is hidden`)
  }

  /** What it is told that is no event. */
  #hear(told: Told): void {
    const { name, message } = told
    this.#watch.note(`${this.name} is told ${name}: ${message}`)
    const expected = this.#expected
    this.#expected = undefined
    if (expected !== undefined) {
      // A relay that ends tells nothing else.
      if (name !== expected && name !== 'ServiceRestart') this.#broken(`is told ${name}, and not ${expected}`)
      return
    }
    const { lastDeletedSeq = 0 } = this.#relay?.parts.log ?? {}
    const oldest = this.#watch.records[this.#next]?.seq ?? Infinity
    const isPast = oldest <= lastDeletedSeq
    const fault = this.#ends?.faultOf(told, isPast)
    if (fault !== undefined) this.#broken(fault)
    const cursor = Number(/resume with cursor=(\d+)/.exec(message)?.[1])
    const missed = this.#missing
    if (missed && missed.seq <= cursor) this.#broken(`is told ${cursor}, and did not get ${missed.seq}`)
  }

  /** Whether a record may be left out: it was hidden at some time since the consumer is here. */
  #mayMiss({ did, isContent }: Seen): boolean {
    return isContent && (this.#watch.hidden.get(did)?.untilMs ?? 0) >= this.#connectedAtMs
  }

  #broken(what: string): void {
    this.#watch.onBroken(`${this.name} ${what}`)
    this.leave()
  }
}

function requestOf(framing: Join['framing']): IncomingMessage {
  const headers = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'sec-websocket-version': '13',
    ...(framing === 'json' ? { 'sec-websocket-protocol': 'xrpc.v1.json' } : {}),
  }
  return { method: 'GET', url: '/', headers } as unknown as IncomingMessage // all of a request that `ws` reads
}
