/** What sockets of subscribers hold together, against the bound that the fan-out was given. */
import type { ConsumerSocket } from '@tributary/testkit/simulation'
import type { StreamProcess } from './stream-process.ts'

/** The fan-out looks at what everybody holds each second, and one read or flush may come on top. */
const slack = { ms: 2500, bytes: 6000 }

export class SocketsHeld {
  readonly #max: number
  /** Sockets that are open, by the name of their subscriber, and the largest write to each. */
  readonly #open = new Map<string, { socket: ConsumerSocket; largest: number }>()
  #tooManySinceMs = Infinity

  constructor(max = Infinity) {
    this.#max = max
  }

  opened(name: string, socket: ConsumerSocket): void {
    const open = { socket, largest: 0 }
    this.#open.set(name, open)
    socket.once('close', () => {
      if (this.#open.get(name) === open) this.#open.delete(name)
    })
  }

  written(name: string, { length }: Buffer): void {
    const open = this.#open.get(name)
    if (open) open.largest = Math.max(open.largest, length)
  }

  /** Whether so much may be held that somebody has to go. A write is held whole until all of it is taken. */
  get mayBeTooMuch(): boolean {
    const held = [...this.#open.values()].filter(({ socket }) => socket.writableLength > 0)
    return held.reduce((sum, { socket, largest }) => sum + socket.writableLength + largest, 0) > this.#max
  }

  /** A3: those who stopped at the same row may share what they hold. @returns what is wrong with it. */
  fault({ parts: { fanout }, world: { time } }: StreamProcess): string | undefined {
    const heldAt = new Map<number, number>()
    for (const { userAgent, state, position } of fanout.subscribers())
      if (state === 'behind' || state === 'draining') {
        const { writableLength = 0 } = this.#open.get(userAgent)?.socket ?? {}
        heldAt.set(position, Math.max(heldAt.get(position) ?? 0, writableLength))
      }
    const bytes = [...heldAt.values()].reduce((sum, each) => sum + each, 0)
    if (bytes <= this.#max + slack.bytes) this.#tooManySinceMs = Infinity
    else this.#tooManySinceMs = Math.min(this.#tooManySinceMs, time.nowMs)
    return time.nowMs - this.#tooManySinceMs > slack.ms
      ? `A3: subscribers hold ${bytes} bytes since ${this.#tooManySinceMs}`
      : undefined
  }
}
