import { setImmediate as nextTurn } from 'node:timers/promises'

export interface FairTurnsOptions {
  /** Pieces of work that are under way at a time. With more than one, a piece that waits for a disk holds up nobody. Default 1. */
  underWayMax?: number
  /** Milliseconds of a turn of the event loop after which no piece begins in it. Default 0: each piece has its own turn. */
  sliceMs?: number
  nowMs?: () => number
}

/**
 * Does pieces of work for many, each known by a key, without holding up the event loop. Keys take turns: a piece waits
 * for the earlier ones of its own key, and for one of each other key.
 */
export class FairTurns {
  readonly #underWayMax: number
  readonly #sliceMs: number
  readonly #nowMs: () => number
  /** Keys with pieces that wait, the next first, and their pieces, the oldest first. */
  readonly #queues = new Map<string, (() => Promise<void>)[]>()
  #size = 0
  #workers = 0
  /** When the pieces of this turn of the event loop have had their time. Undefined before the first one. */
  #endsMs: number | undefined

  constructor({ underWayMax = 1, sliceMs = 0, nowMs = () => performance.now() }: FairTurnsOptions = {}) {
    this.#underWayMax = underWayMax
    this.#sliceMs = sliceMs
    this.#nowMs = nowMs
  }

  /** Pieces that wait. */
  get size(): number {
    return this.#size
  }

  /** Pieces of one key that wait. */
  sizeOf(key: string): number {
    return this.#queues.get(key)?.length ?? 0
  }

  /** What the work gives or throws, once it had its turn. */
  async run<T>(key: string, work: () => T | Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const queue = this.#queues.get(key) ?? []
    this.#queues.set(key, queue)
    queue.push(async () => {
      try {
        resolve(await work())
      } catch (error) {
        reject(error)
      }
    })
    this.#size++
    if (this.#workers < this.#underWayMax) void this.#work()
    return promise
  }

  async #work(): Promise<void> {
    this.#workers++
    while (this.#size > 0) {
      if (this.#hasTime()) await this.#take()?.()
      else await nextTurn()
    }
    this.#workers--
  }

  #hasTime(): boolean {
    if (this.#endsMs !== undefined) return this.#nowMs() < this.#endsMs
    this.#endsMs = this.#nowMs() + this.#sliceMs
    setImmediate(() => (this.#endsMs = undefined))
    return true
  }

  #take(): (() => Promise<void>) | undefined {
    const [first] = this.#queues
    if (!first) return undefined
    const [key, queue] = first
    this.#queues.delete(key)
    const piece = queue.shift()
    // The next piece of this key comes after one of each other.
    if (queue.length > 0) this.#queues.set(key, queue)
    this.#size--
    return piece
  }
}
