export interface FairTurnsOptions {
  /** Pieces of work that are under way at a time. With more than one, a piece that waits for a disk holds up nobody. Default 1. */
  underWayMax?: number
  /** Milliseconds that pieces take together before a pause. Default 0: there is one piece between two pauses. */
  sliceMs?: number
  /** Default: that of the machine. */
  clock?: PauseClock
}

/** Where pauses get their time from. */
export interface PauseClock {
  /** Milliseconds since some moment. They never go back. */
  elapsedMs(): number
  /** Calls once. */
  after(ms: number, call: () => void): unknown
}

const systemClock: PauseClock = {
  elapsedMs: () => performance.now(),
  after: (ms, call) => setTimeout(call, ms),
}

/** Longest pause in milliseconds: a disk that is slow has nothing to do with what others need of the event loop. */
const pauseMsMax = 20
/**
 * A pause that ends late shows that others want the event loop or the machine. The next one is longer by so many times
 * what this one was late. Timers are up to a millisecond late on a machine that does nothing else.
 */
const late = { freeMs: 1, factor: 2 }

interface Piece {
  /** Never throws. */
  start: () => Promise<void>
  reject: (error: Error) => void
}

/**
 * Does pieces of work for many, each known by a key, with half of the event loop's time at most: after each slice comes
 * a pause that is as long, and longer while others lack the machine. Keys take turns: a piece waits for the earlier ones
 * of its own key, and for one of each other key.
 */
export class FairTurns {
  readonly #underWayMax: number
  readonly #sliceMs: number
  readonly #clock: PauseClock
  /** Keys with pieces that wait, the next first, and their pieces, the oldest first. */
  readonly #queues = new Map<string, Piece[]>()
  #size = 0
  #workers = 0
  /** Milliseconds that pieces took since the last pause. */
  #spentMs = 0
  #underWay = 0
  /** Up to when the time of the pieces that are under way is in `#spentMs`. */
  #countedUntilMs = 0
  /** By how many milliseconds the pause before ended late. */
  #lateMs = 0
  #pause: Promise<void> | undefined

  constructor({ underWayMax = 1, sliceMs = 0, clock = systemClock }: FairTurnsOptions = {}) {
    this.#underWayMax = underWayMax
    this.#sliceMs = sliceMs
    this.#clock = clock
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
    const start = async (): Promise<void> => {
      try {
        resolve(await work())
      } catch (error) {
        reject(error)
      }
    }
    queue.push({ start, reject })
    this.#size++
    if (this.#workers < this.#underWayMax) void this.#work()
    return promise
  }

  /** Gives up the newest piece that waits, of the key with most of them: its `run` throws this error. */
  giveUpOne(error: Error): void {
    let most: [key: string, queue: Piece[]] | undefined
    for (const each of this.#queues) if (each[1].length > (most?.[1].length ?? 0)) most = each
    if (!most) return
    const [key, queue] = most
    queue.pop()?.reject(error)
    if (queue.length === 0) this.#queues.delete(key)
    this.#size--
  }

  async #work(): Promise<void> {
    this.#workers++
    while (this.#size > 0) {
      if (this.#pause) await this.#pause
      else await this.#doNext()
    }
    this.#workers--
  }

  async #doNext(): Promise<void> {
    if (this.#underWay++ === 0) this.#countedUntilMs = this.#clock.elapsedMs()
    await this.#take()?.start()
    this.#underWay--
    const nowMs = this.#clock.elapsedMs()
    this.#spentMs += nowMs - this.#countedUntilMs
    this.#countedUntilMs = nowMs
    if (this.#spentMs < this.#sliceMs || this.#pause) return
    const pauseMs = Math.min(this.#spentMs + late.factor * this.#lateMs, pauseMsMax)
    this.#spentMs = 0
    this.#pause = this.#rest(pauseMs)
  }

  async #rest(pauseMs: number): Promise<void> {
    const endMs = this.#clock.elapsedMs() + pauseMs
    await new Promise<void>((resolve) => this.#clock.after(pauseMs, resolve))
    this.#lateMs = Math.max(0, this.#clock.elapsedMs() - endMs - late.freeMs)
    this.#pause = undefined
  }

  #take(): Piece | undefined {
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
