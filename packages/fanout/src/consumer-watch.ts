import type { Socket } from 'node:net'
import type { FanoutClock } from './clock.ts'
import { CloseReason } from './close-reason.ts'
import type { FanoutOptions } from './fanout-options.ts'
import { HeldBytes } from './held-bytes.ts'
import type { Subscriber } from './subscriber.ts'

/** What the watch needs of the fan-out. */
export interface WatchHost {
  subscribers(): Iterable<Subscriber>
  end(subscriber: Subscriber, reason: CloseReason): void
}

export interface WatchOptions extends FanoutOptions {
  clock: FanoutClock
}

const heldBytesMaxDefault = 256 * 1024 * 1024
/** How often everything that sockets hold is counted. Between two looks it grows by no more than what is published. */
const heldEveryMs = 1000

/** Ends consumers that are gone, that take nothing, that fall too far behind, or that hold too much memory. */
export class ConsumerWatch {
  readonly #options: WatchOptions
  readonly #host: WatchHost
  readonly #held = new HeldBytes()
  readonly #timers: Disposable[]

  constructor(options: WatchOptions, host: WatchHost) {
    this.#options = options
    this.#host = host
    const { clock } = options
    this.#timers = [
      clock.every(options.pingMs ?? 30_000, () => this.#ping()),
      clock.every((options.stallMs ?? 30_000) / 4, () => this.#endStalled()),
      clock.every(heldEveryMs, () => {
        // Also when nobody has to go: what was taken, and those that are gone, are not kept for being counted.
        this.#held.noteAgain()
        this.#endLargest()
      }),
    ]
  }

  /** A reader that is behind holds more or less of what was read for it, or was just written to it. */
  noteHeld(subscriber: Subscriber, frames?: readonly Uint8Array[]): void {
    this.#held.note(subscriber, frames)
    this.#endLargest()
  }

  /** A live reader has not taken what was flushed. Nobody is ended within a flush. */
  noteFlushed(subscriber: Subscriber, frames: readonly Uint8Array[]): void {
    this.#held.note(subscriber, frames)
  }

  close(): void {
    for (const timer of this.#timers) timer[Symbol.dispose]()
  }

  #ping(): void {
    for (const subscriber of this.#host.subscribers()) {
      const { webSocket, socket } = subscriber.connection
      if (!subscriber.isAnswering && socket.writableLength === 0) {
        this.#endSlow(subscriber, 'No ping was answered')
        continue
      }
      subscriber.isAnswering = false
      subscriber.connection.feed.allowMore()
      webSocket.ping()
    }
  }

  /** Ends consumers that take nothing, and those that are further behind than the operator lets them be. */
  #endStalled(): void {
    const { stallMs = 30_000, lagMax = Infinity, clock } = this.#options
    const now = clock.elapsedMs()
    for (const subscriber of this.#host.subscribers()) {
      const { taken, waiting } = progressOf(subscriber.connection.socket)
      if (waiting === 0 || taken !== subscriber.takenBytes) {
        subscriber.takenBytes = taken
        subscriber.stuckSinceMs = now
      } else if (now - subscriber.stuckSinceMs >= stallMs) {
        this.#endSlow(subscriber, `No byte was read for ${Math.round(stallMs / 1000)} s`)
      }
      const { lag } = subscriber.info(subscriber.group.headSeq)
      if (lag > lagMax && lag >= subscriber.lagBefore)
        this.#endSlow(subscriber, `More than ${lagMax} events behind`)
      subscriber.lagBefore = lag
    }
  }

  /** Cuts consumers off until what is held is within the bound. They are told why, if they read it before. */
  #endLargest(): void {
    const { heldBytesMax = heldBytesMaxDefault, networkOf = (address: string) => address } = this.#options
    if (this.#held.sum > heldBytesMax) this.#held.noteAgain()
    while (this.#held.sum > heldBytesMax) {
      const largest = this.#held.largest(networkOf)
      if (!largest) return
      this.#endSlow(largest, `${largest.heldBytes} bytes were not read, and all readers hold too many`)
      largest.connection.socket.destroy()
      this.#held.forget(largest)
    }
  }

  #endSlow(subscriber: Subscriber, why: string): void {
    this.#host.end(subscriber, new CloseReason(1008, 'ConsumerTooSlow', why))
  }
}

/** Node's own measure of the progress of writes. */
interface WriteProgress {
  /** Bytes that the handle was given. */
  bytesWritten: number
  /** Bytes of them that the kernel has not taken. */
  writeQueueSize: number
}

/** What the kernel has taken of a socket, a part of a write too, and what waits in the socket. */
function progressOf(socket: Socket): { taken: number; waiting: number } {
  const handle = (socket as Socket & { _handle?: WriteProgress | null })._handle // see there
  return { taken: handle ? handle.bytesWritten - handle.writeQueueSize : 0, waiting: socket.writableLength }
}
