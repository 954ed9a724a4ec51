/**
 * Turns at something that may be done so many times a second, and in so many places at a time. Whoever causes it waits in
 * a queue of its own, and the queues take turns: a cause that asks for thousands delays another by one turn.
 * A cause may hold another place while it holds fewer than are free, and a place in a queue likewise. So one alone gets
 * half, and any number of them together leave something free for the next.
 */
import { TokenBucket } from '@tributary/rates'
import { IdentityError } from './identity-error.ts'

export interface TurnsOptions {
  /** Turns a second, and how many of them may come at once. */
  perSecond: number
  /** Turns that are under way. */
  placesMax: number
  /** Turns that are waited for. */
  waitingMax: number
  /** How long one is waited for. */
  waitMsMax: number
  nowMs: () => number
  delay: (ms: number) => Promise<void>
}

/**
 * Turns that wait are let go together this often, because each time that the process wakes up costs more than a turn.
 * A cause that is new waits for so long while another one waits for thousands.
 */
const tickMs = 30
/**
 * Turns that may begin at once: 40 ms of their pace, or ten, but no more than a second's. What is asked all at once is
 * answered one by one, and whoever comes next waits for all of it. It is more than what comes in a tick, so that a
 * tick may be late.
 */
const burstOf = (perSecond: number): number => Math.min(perSecond, Math.max(10, perSecond * 0.04))

const retryMs = { min: 1000, max: 60_000 }

interface Queue {
  waiting: Set<Turn>
  /** The latest moment that somebody who found the queue full was told. */
  toldMs: number
}

export class Turn {
  /** Settles when it is the turn of this. @throws IdentityError when it was waited for too long. */
  readonly begun: Promise<void>
  readonly begin: () => void
  readonly fail: (error: IdentityError) => void
  readonly causes: Set<string> = new Set()
  untilMs = 0
  /** The cause whose place it has, once it has one. */
  holder: string | undefined

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.begun = promise
    this.begin = resolve
    this.fail = reject
  }
}

export class Turns {
  readonly #options: TurnsOptions
  readonly #bucket: TokenBucket
  /** In the order in which their next turn comes. */
  readonly #queues = new Map<string, Queue>()
  readonly #held = new Map<string, number>()
  #waiting = 0
  #underWay = 0
  #isTimed = false

  constructor(options: TurnsOptions) {
    this.#options = options
    const { perSecond, nowMs } = options
    this.#bucket = new TokenBucket({ perSecond, burst: burstOf(perSecond) }, nowMs)
  }

  /** Turns wait for the next time that some are let go. */
  get areWaitedFor(): boolean {
    return this.#isTimed
  }

  /** Why no turn can be waited for, if so. */
  refusal(cause: string): IdentityError | undefined {
    const queue = this.#queues.get(cause)
    return queue && !this.#hasRoom(queue) ? this.#tooMany(queue) : undefined
  }

  /** Waits for a turn, or takes it at once. Call it only if there is no `refusal`, and `leave` when it is over. */
  enter(cause: string): Turn {
    const turn = new Turn()
    this.#add(turn, cause)
    this.#serve()
    return turn
  }

  /** Somebody else waits for the same: the turn comes when it is that of either. */
  join(turn: Turn, cause: string): void {
    if (turn.causes.size === 0 || turn.causes.has(cause)) return
    const queue = this.#queues.get(cause)
    if (queue && !this.#hasRoom(queue)) return
    this.#add(turn, cause)
    this.#serve()
  }

  /** Gives the place of a turn back, if it has one. */
  leave({ holder }: Turn): void {
    if (holder === undefined) return
    this.#underWay--
    const held = (this.#held.get(holder) ?? 0) - 1
    if (held > 0) this.#held.set(holder, held)
    else this.#held.delete(holder)
    this.#serve()
  }

  #hasRoom({ waiting }: Queue): boolean {
    return waiting.size < this.#options.waitingMax - this.#waiting
  }

  #add(turn: Turn, cause: string): void {
    let queue = this.#queues.get(cause)
    if (!queue) {
      queue = { waiting: new Set(), toldMs: 0 }
      this.#queues.set(cause, queue)
    }
    queue.waiting.add(turn)
    turn.causes.add(cause)
    turn.untilMs = this.#options.nowMs() + this.#options.waitMsMax
    this.#waiting++
  }

  /** Takes a turn out of all queues. */
  #remove(turn: Turn): void {
    for (const cause of turn.causes) {
      const queue = this.#queues.get(cause)
      queue?.waiting.delete(turn)
      this.#waiting--
      if (queue?.waiting.size === 0) this.#queues.delete(cause)
    }
    turn.causes.clear()
  }

  #serve(): void {
    if (this.#isTimed) return
    for (let next = this.#next(); next; next = this.#next()) {
      const [cause, queue, turn] = next
      const { isTaken, waitMs } = this.#bucket.take(0)
      if (!isTaken) return this.#serveIn(Math.max(waitMs, tickMs))
      this.#queues.delete(cause)
      this.#queues.set(cause, queue)
      this.#remove(turn)
      turn.holder = cause
      this.#underWay++
      this.#held.set(cause, (this.#held.get(cause) ?? 0) + 1)
      turn.begin()
    }
  }

  #serveIn(ms: number): void {
    this.#isTimed = true
    void this.#options.delay(ms).then(() => {
      this.#isTimed = false
      this.#serve()
    })
  }

  /** The first turn of the first queue whose cause may hold another place. Those that waited for too long go. */
  #next(): [cause: string, queue: Queue, turn: Turn] | undefined {
    const free = this.#options.placesMax - this.#underWay
    if (free <= 0) return undefined
    for (const [cause, queue] of this.#queues) {
      if ((this.#held.get(cause) ?? 0) >= free) continue
      for (const turn of queue.waiting) {
        if (turn.untilMs > this.#options.nowMs()) return [cause, queue, turn]
        this.#remove(turn)
        turn.fail(this.#tooMany(queue))
      }
    }
    return undefined
  }

  #tooMany(queue: Queue): IdentityError {
    const { perSecond, nowMs } = this.#options
    const now = nowMs()
    // Each is told a moment of its own, at the pace of the turns, so that they do not all come back at once.
    const eachMs = (1000 * Math.max(1, this.#queues.size)) / perSecond
    const nextMs = Math.max(queue.toldMs + eachMs, now + (queue.waiting.size * eachMs) / 2, now + retryMs.min)
    queue.toldMs = Math.min(nextMs, now + retryMs.max)
    return new IdentityError('unavailable', 'too many DID documents are asked for', {
      retryAfterMs: queue.toldMs - now,
      isOwnLimit: true,
    })
  }
}
