/** Why a consumer may be ended, and when it must be. */
import { clientFrame, opcodes, type ConsumerSocket } from '@tributary/testkit/simulation'
import type { Told } from './consumer-frames.ts'
import type { World } from './relay-process.ts'
import type { Chat } from './consumer.ts'

/** As in the fan-out: two pings without an answer end a consumer, and so does a socket that takes nothing. */
const pingMs = 30_000
const stallMs = 30_000
/** A look at who stalls comes so often. */
const stallLookMs = stallMs / 4
/** Who is ended has so long to read why. */
const graceMs = 6000
/** Bytes that a consumer sends between two pings at most without being ended, and bytes for which it is ended. */
const chatBytes = { harmless: 12_000, flood: 20_000, each: 900 }

export class EndReasons {
  readonly #world: World
  readonly #connectedAtMs: number
  #chatted = 0
  /** What it did for which it must be ended, and when. */
  #offence: { name: string | undefined; atMs: number } | undefined
  /** When an error was written to it. */
  #endedAtMs: number | undefined
  #stuckSinceMs: number | undefined

  constructor(world: World) {
    this.#world = world
    this.#connectedAtMs = world.time.nowMs
  }

  /** What a consumer sends. */
  chat(how: Chat): Buffer[] {
    if (this.#offence) return []
    const text = (): Buffer => clientFrame(opcodes.text, Buffer.alloc(chatBytes.each, 'x'))
    const atMs = this.#world.time.nowMs
    if (how === 'much') {
      this.#offence = { name: 'TooManyMessages', atMs }
      return Array.from({ length: Math.ceil(chatBytes.flood / chatBytes.each) }, text)
    }
    if (how === 'wrong') {
      this.#offence = { name: undefined, atMs }
      return [clientFrame(opcodes.text, Buffer.alloc(2000))]
    }
    this.#chatted += chatBytes.each
    return this.#chatted > chatBytes.harmless ? [] : [text()]
  }

  /** The relay lets it send as much as before. */
  pinged(): void {
    this.#chatted = 0
  }

  /** Bytes are written to it by the relay. */
  written(bytes: Buffer, socket: ConsumerSocket): void {
    const isError = errors.some((name) => bytes.includes(name))
    if (isError) this.#endedAtMs ??= this.#world.time.nowMs
    if (bytes.includes('No byte was read') && this.#world.time.nowMs - socket.takenAtMs < stallMs - 1)
      this.#endedUnjustly = `is ended for taking nothing, and took something at ${socket.takenAtMs}`
    if (bytes.includes(noPing) && !this.#mayHaveMissedPings(socket, this.#world.time.nowMs))
      this.#endedUnjustly = 'is ended for answering no ping, and answered'
  }

  /** It is silent, or it was slow a moment ago, and did not get the ping in time. */
  #mayHaveMissedPings(socket: ConsumerSocket, nowMs: number): boolean {
    const silentMs = nowMs - Math.max(this.#connectedAtMs, socket.paceSinceMs)
    if (socket.pace === 'mute' && silentMs > 0) return true
    const wasSlow = socket.pace !== 'fast' || nowMs - socket.paceSinceMs < 2 * pingMs
    return wasSlow && nowMs - this.#connectedAtMs > pingMs
  }

  #endedUnjustly: string | undefined

  /** What is wrong with being told something. `isPast`: what it needs next is gone. */
  faultOf({ name, message }: Told, isPast: boolean): string | undefined {
    if (this.#endedUnjustly !== undefined) return this.#endedUnjustly
    const text = `is told ${name}: ${message}`
    if (name === 'ServiceRestart') return undefined
    if (name === 'InternalError') return this.#world.storage.hasFailed ? undefined : text
    if (this.#offence?.name === name) return undefined
    if (name !== 'ConsumerTooSlow') return text
    return isPast || message.startsWith('No byte was read') || message.startsWith(noPing) ? undefined : text
  }

  /** What is wrong with the end of the connection. */
  faultOfClose(): string | undefined {
    if (this.#endedUnjustly !== undefined) return this.#endedUnjustly
    if (this.#endedAtMs !== undefined || this.#offence || this.#world.storage.hasFailed) return undefined
    return 'is cut off without a word'
  }

  /** A consumer that should be gone. */
  overdue(socket: ConsumerSocket, nowMs: number): string | undefined {
    const { pace, paceSinceMs, writableLength } = socket
    const offence = this.#offence
    if (offence && pace === 'fast' && nowMs - Math.max(offence.atMs, paceSinceMs) > graceMs)
      return `is kept though it sent what it may not`
    const isStuck = writableLength > 0 && pace === 'stuck'
    this.#stuckSinceMs = isStuck ? Math.max(this.#stuckSinceMs ?? nowMs, socket.takenAtMs) : undefined
    if (nowMs - (this.#stuckSinceMs ?? nowMs) > stallMs + 2 * stallLookMs + graceMs)
      return `is kept though it takes nothing since ${this.#stuckSinceMs}`
    const muteSinceMs = Math.max(paceSinceMs, this.#connectedAtMs)
    if (pace === 'mute' && nowMs - muteSinceMs > 3 * pingMs) return 'is kept though it answers no ping'
    return undefined
  }
}

const noPing = 'No ping was answered'
const errors = ['ConsumerTooSlow', 'ServiceRestart', 'InternalError', 'TooManyMessages', 'FutureCursor']
