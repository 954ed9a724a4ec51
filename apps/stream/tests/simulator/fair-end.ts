/** Why a subscriber may be ended, when it must be, and what may be written to its socket. */
import { opcodes, type ConsumerSocket } from '@tributary/testkit/simulation'
import type { World } from './stream-process.ts'

/** As in the fan-out: two pings without an answer end a subscriber, and so does a socket that takes nothing. */
const pingMs = 30_000
const stallMs = 30_000
/** A look at who stalls comes so often. */
const stallLookMs = stallMs / 4
/** Who is ended has so long to read why. */
const graceMs = 6000
/** The bit of a frame that is a whole message. */
const isLast = 0x80
/** A socket that is gone is known to be gone after that. */
const goneMs = 100

export class FairEnd {
  readonly #world: World
  readonly #socket: ConsumerSocket
  readonly #connectedAtMs: number
  #stuckSinceMs: number | undefined
  #goneAtMs: number | undefined
  #isClosing = false

  constructor(world: World, socket: ConsumerSocket) {
    this.#world = world
    this.#socket = socket
    this.#connectedAtMs = world.time.nowMs
    socket.once('close', () => (this.#goneAtMs = world.time.nowMs))
  }

  /** What is wrong with something that is written. */
  written(bytes: Buffer): string | undefined {
    const { nowMs } = this.#world.time
    if (this.#goneAtMs !== undefined && nowMs - this.#goneAtMs > goneMs)
      return `is written to, and has gone at ${this.#goneAtMs}`
    if (this.#isClosing && bytes[0] === (isLast | opcodes.text))
      return 'is sent a message after the close frame'
    this.#isClosing ||= bytes[0] === (isLast | opcodes.close)
    const { takenAtMs } = this.#socket
    return bytes.includes('No byte was read') && nowMs - takenAtMs < stallMs - 1
      ? `is ended for taking nothing, and took something at ${takenAtMs}`
      : undefined
  }

  /** Why it should be gone by now. */
  overdue(nowMs: number): string | undefined {
    const { pace, paceSinceMs, writableLength, takenAtMs, destroyed } = this.#socket
    const isStuck = writableLength > 0 && pace === 'stuck' && !destroyed
    this.#stuckSinceMs = isStuck ? Math.max(this.#stuckSinceMs ?? nowMs, takenAtMs) : undefined
    if (nowMs - (this.#stuckSinceMs ?? nowMs) > stallMs + 2 * stallLookMs + graceMs)
      return `is kept though it takes nothing since ${this.#stuckSinceMs}`
    const muteSinceMs = Math.max(paceSinceMs, this.#connectedAtMs)
    return pace === 'mute' && nowMs - muteSinceMs > 3 * pingMs
      ? 'is kept though it answers no ping'
      : undefined
  }
}
