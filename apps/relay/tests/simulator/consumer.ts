/**
 * A consumer of the firehose, and the model of what it must get: from any cursor each record after it, in order, except
 * for what hidden accounts wrote, or else an error by its name.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { decode, decodeFirst } from '@atcute/cbor'
import { randomFrom, type Random } from '@tributary/testkit/disk'
import { ConsumerSocket, type Pace } from './consumer-socket.ts'
import type { RelayProcess } from './relay-process.ts'
import type { Step } from './script.ts'
import type { Seen, Watch } from './watch.ts'

export type Join = Extract<Step, { do: 'join' }>
/** Where a consumer begins: after what it has handled, with what comes next, at the start, and so on. */
export type CursorWish = Join['cursor']

/** How likely retention is applied while a file is being read for a consumer. */
const retentionChance = 0.3
const redialMs = { min: 10, max: 1000 }

export class Consumer {
  readonly name: string
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
  #connectedAtMs = 0
  /** It has everything up to here, and the next record that it gets is the place of this one in `records`. */
  #next = 0
  /** What it has to be told first. */
  #expected: 'FutureCursor' | 'OutdatedCursor' | undefined

  constructor(index: number, seed: number, watch: Watch) {
    this.name = `consumer ${index}`
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
    if (this.#socket) this.#socket.pace = pace
  }

  /** What it still has to get, when nothing is in its way. */
  faults(): string[] {
    if (!this.#join) return []
    if (!this.#socket) return [`${this.name} is not connected`]
    const missing = this.#watch.records.slice(this.#next).find((seen) => !this.#mayMiss(seen))
    return missing ? [`${this.name} does not get ${missing.seq}`] : []
  }

  #redial(): void {
    const ms = redialMs.min + this.#random.next() * (redialMs.max - redialMs.min)
    this.#relay?.clock.after(ms, () => {
      if (this.#join && !this.#socket) this.#dial('own')
    })
  }

  #dial(wish: CursorWish): void {
    const relay = this.#relay
    if (!relay?.hasStarted || !this.#join) return
    const { log, firehose } = relay.parts
    const cursor = this.#cursorFor(wish, log.nextSeq)
    const socket = new ConsumerSocket(this.pace, {
      clock: relay.clock,
      random: this.#random,
      onBytes: (bytes, writtenAtMs) => this.#take(bytes, writtenAtMs),
      onTaken: () => void this.#deleteAmidReads(relay),
    })
    this.#socket = socket
    this.#inbox = Buffer.alloc(0)
    this.#isGreeted = false
    this.#connectedAtMs = relay.clock.nowMs()
    const isFuture = cursor !== undefined && cursor >= log.nextSeq
    const isOutdated = cursor !== undefined && cursor > 0 && cursor < log.lastDeletedSeq
    this.#expected = isFuture ? 'FutureCursor' : isOutdated ? 'OutdatedCursor' : undefined
    this.#next = this.#placeAfter(Math.max(cursor ?? Infinity, log.lastDeletedSeq))
    this.#watch.note(`${this.name} joins after ${cursor}`)
    socket.once('close', () => {
      if (this.#socket !== socket) return
      this.#socket = undefined
      this.#redial()
    })
    firehose.subscribe(
      requestOf(this.#join.framing),
      socket as unknown as Socket, // all of a socket that the fan-out uses
      Buffer.alloc(0),
      this.name,
      cursor,
    )
  }

  #cursorFor(wish: CursorWish, nextSeq: number): number | undefined {
    const { records } = this.#watch
    if (wish === 'none') return undefined
    if (wish === 'start') return 0
    if (wish === 'future') return nextSeq + this.#random.below(1000)
    if (wish === 'back' && records.length > 0) return this.#random.pick(records).seq - this.#random.below(2)
    return this.#cursor
  }

  #placeAfter(seq: number): number {
    const { records } = this.#watch
    const next = records.findIndex((seen) => seen.seq > seq)
    return next < 0 ? records.length : next
  }

  /** Deletes old files while one of them is being read, as far as microtasks tell. */
  async #deleteAmidReads({ parts, hasFailed }: RelayProcess): Promise<void> {
    if (this.#random.next() >= retentionChance || hasFailed) return
    for (let n = 0; n < 10; n++) await Promise.resolve()
    parts.log.applyRetention()
  }

  #take(bytes: Buffer, writtenAtMs: number | undefined): void {
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
      const opcode = frame.readUInt8(0) & 15
      if (opcode === 8) this.#socket.destroy()
      else if (opcode <= 2) this.#message(frame, opcode === 1, writtenAtMs)
    }
  }

  #message(frame: Buffer, isText: boolean, writtenAtMs: number | undefined): void {
    const at = this.#expected === undefined ? this.#placeOf(frame, isText) : undefined
    if (at !== undefined) return this.#handle(at, writtenAtMs)
    const told = isText ? toldIn(textOf(frame)) : toldInCbor(frame)
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

  #handle(at: number, writtenAtMs: number | undefined): void {
    const seen = this.#watch.records[at]
    if (!seen) return
    this.#next = at + 1
    this.#cursor = seen.seq
    const hidden = this.#watch.hidden.get(seen.did)
    const wasHidden = hidden?.untilMs === Infinity && hidden.fromMs < (writtenAtMs ?? 0)
    if (seen.isContent && wasHidden) this.#broken(`gets ${seen.seq} of an account that is hidden`)
  }

  /** What it is told that is no event. */
  #hear({ name, message }: Told): void {
    this.#watch.note(`${this.name} is told ${name}`)
    const expected = this.#expected
    this.#expected = undefined
    if (expected !== undefined) {
      if (name !== expected) this.#broken(`is told ${name}, and not ${expected}`)
      return
    }
    const { lastDeletedSeq = 0 } = this.#relay?.parts.log ?? {}
    const oldest = this.#watch.records[this.#next]?.seq ?? Infinity
    if (name === 'ConsumerTooSlow' && oldest > lastDeletedSeq)
      this.#broken(`is ended for its lag before ${oldest} is gone: ${message}`)
    else if (name !== 'ConsumerTooSlow' && name !== 'ServiceRestart')
      this.#broken(`is told ${name}: ${message}`)
    const cursor = Number(/resume with cursor=(\d+)/.exec(message)?.[1])
    const missed = this.#watch.records.slice(this.#next).find((seen) => !this.#mayMiss(seen))
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

interface Told {
  name: string
  message: string
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

/** A whole WebSocket frame at the start of some bytes. Undefined while there is none. */
function firstFrame(bytes: Buffer): Buffer | undefined {
  if (bytes.length < 10 && bytes.length < 2 + headerBytes(bytes)) return undefined
  const head = 2 + headerBytes(bytes)
  const short = bytes.readUInt8(1) & 127
  const length =
    short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))
  return bytes.length < head + length ? undefined : bytes.subarray(0, head + length)
}

/** Bytes of the length of a frame beyond the first two. */
function headerBytes(bytes: Buffer): number {
  const short = bytes.length < 2 ? 0 : bytes.readUInt8(1) & 127
  return short < 126 ? 0 : short === 126 ? 2 : 8
}

function payloadOf(frame: Buffer): Buffer {
  return frame.subarray(2 + headerBytes(frame))
}

function textOf(frame: Buffer): Record<string, unknown> {
  const text = JSON.parse(payloadOf(frame).toString()) as Record<string, unknown> // a message of the v1 framing
  return text['$type'] === 'message' ? (text['payload'] as Record<string, unknown>) : text // likewise
}

function seqOf(frame: Buffer): number | undefined {
  const { seq } = textOf(frame)
  return typeof seq === 'number' ? seq : undefined
}

/** What a message of the v1 framing tells that is no event. */
function toldIn({ $type, error, name, message }: Record<string, unknown>): Told | undefined {
  if ($type === 'error') return { name: String(error), message: String(message) }
  return String($type).endsWith('#info') ? { name: String(name), message: String(message) } : undefined
}

function toldInCbor(frame: Buffer): Told | undefined {
  const [header, rest] = decodeFirst(payloadOf(frame)) as [{ op: number; t?: string }, Uint8Array] // as all frames begin
  if (header.op === 1 && header.t !== '#info') return undefined
  return toldIn({ $type: header.op === -1 ? 'error' : '#info', ...(decode(rest) as Record<string, unknown>) }) // a map, like all bodies
}
