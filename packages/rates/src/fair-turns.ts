import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'

export interface FairTurnsOptions {
  /** Pieces of work that are under way at a time. With more than one, a piece that waits for a disk holds up nobody. Default 1. */
  underWayMax?: number
  /** Milliseconds after which no piece begins before a pause. Default 0: there is one piece between two pauses. */
  sliceMs?: number
  /** Milliseconds that a pause lasts. Default 0: until the next turn of the event loop. */
  pauseMs?: number
  nowMs?: () => number
}

/**
 * Does pieces of work for many, each known by a key, without holding up the event loop. Keys take turns: a piece waits
 * for the earlier ones of its own key, and for one of each other key.
 */
export class FairTurns {
  readonly #underWayMax: number
  readonly #sliceMs: number
  readonly #pauseMs: number
  readonly #nowMs: () => number
  /** Keys with pieces that wait, the next first, and their pieces, the oldest first. */
  readonly #queues = new Map<string, (() => Promise<void>)[]>()
  #size = 0
  #workers = 0
  #sliceEndsMs = 0
  /** Ends with the pause after the slice. Undefined before the first piece of a slice. */
  #pause: Promise<void> | undefined

  constructor(options: FairTurnsOptions = {}) {
    const { underWayMax = 1, sliceMs = 0, pauseMs = 0, nowMs = () => performance.now() } = options
    this.#underWayMax = underWayMax
    this.#sliceMs = sliceMs
    this.#pauseMs = pauseMs
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
      else await this.#pause
    }
    this.#workers--
  }

  #hasTime(): boolean {
    if (this.#pause) return this.#nowMs() < this.#sliceEndsMs
    this.#sliceEndsMs = this.#nowMs() + this.#sliceMs
    const over = this.#pauseMs > 0 ? delay(this.#sliceMs + this.#pauseMs) : nextTurn()
    this.#pause = over.then(() => (this.#pause = undefined))
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
