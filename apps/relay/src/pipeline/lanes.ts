/**
 * The order of each account: its events start one behind the other, in the order in which they came, whatever waits or
 * is tried again. A lane holds events only while its head has to wait, and then copies of their bytes, within bounds.
 */
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import type { Account } from '../state/account.ts'

/** What one account may have waiting, all events of one source, and all of them together. */
const waitingMax = {
  eventsPerAccount: 4000,
  bytesPerAccount: 10_000_000,
  bytesPerSource: 16_000_000,
  bytes: 128 * 1024 * 1024,
}

/**
 * Accounts of one source that may wait before it is not read on, and may still wait when it is again: where all are
 * new, they come faster than their documents can be asked for.
 */
const waitingAccounts = { high: 128, low: 64 }

/**
 * Share of what an account may have waiting at which its source is asked to wait for a moment. What was read from the
 * socket by then still comes: some thousand events when they are small.
 */
const crowdedShare = 0.25

export interface LanesOptions {
  /** Starts or finishes the head of a lane. False when it has to wait; whatever it waits for wakes the lane. */
  start: (event: UpstreamEvent, account: Account) => boolean
  /** A lane is full: the event is not held. */
  onFull: (event: UpstreamEvent, account: Account) => void
  /** So many accounts of a source wait that it should not be read for now, or no longer. */
  onManyWaiting: (source: Source, areMany: boolean) => void
  /** A lane that waits for an answer from outside is filling up, with events of a source. */
  onCrowded: (event: UpstreamEvent, account: Account) => void
  /** The answer that a lane waited for is there, or there is none. */
  onUnblocked: (account: Account) => void
  /** What waited in a lane has been started. */
  onEmpty: (account: Account) => void
}

export class Lanes {
  readonly #options: LanesOptions
  #waitingBytes = 0
  /** Accounts that have events waiting. */
  readonly #waiting = new Set<Account>()
  #isClosed = false

  constructor(options: LanesOptions) {
    this.#options = options
  }

  /** Bytes that all lanes hold. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** How many events wait, of how many accounts, and how many of the one that has the most. */
  depth(): { accounts: number; events: number; eventsMax: number } {
    let events = 0
    let eventsMax = 0
    for (const { waiting, returned, aside } of this.#waiting) {
      const own = waiting.length + returned.length + aside.length
      events += own
      eventsMax = Math.max(eventsMax, own)
    }
    return { accounts: this.#waiting.size, events, eventsMax }
  }

  /** Puts an event at the end of its account's lane, and starts it if it is the head. */
  enter(event: UpstreamEvent, account: Account): void {
    this.#enterAt(account.waiting.length, event, account)
  }

  /** Puts an event that stood aside back into its lane, before those of its source that came later. */
  enterAgain(event: UpstreamEvent, account: Account): void {
    const { waiting } = account
    const later = waiting.findIndex((other) => isBefore(event, other))
    this.#enterAt(later === -1 ? waiting.length : later, event, account)
  }

  #enterAt(place: number, event: UpstreamEvent, account: Account): void {
    const { waiting } = account
    if (waiting.length === 0 && !this.#isClosed && this.#options.start(event, account)) return
    if (!this.hasRoom(waiting.length, event, account)) this.#options.onFull(event, account)
    else {
      waiting.splice(place, 0, event)
      this.hold(event, account, event.message.bytes)
      this.#countWaiting(account)
      if (account.isBlocked && isCrowded(account)) this.#options.onCrowded(event, account)
    }
  }

  /** Starts whatever can start at the head of a lane. */
  wake(account: Account): void {
    if (account.inFlight === 0 && account.returned.length > 0) {
      account.waiting = [...account.returned, ...account.waiting]
      account.returned = []
      this.#countWaiting(account)
    }
    for (let head = account.waiting[0]; head && !this.#isClosed; head = account.waiting[0]) {
      const { length } = head.message.bytes
      if (!this.#options.start(head, account)) return
      account.waiting.shift()
      this.#release(length, head, account)
    }
    this.#countWaiting(account)
    this.#options.onEmpty(account)
  }

  /** Whether nothing of an account is under way or waits. */
  isEmpty({ inFlight, isBlocked, waiting, returned, aside }: Account): boolean {
    return inFlight + waiting.length + returned.length + aside.length === 0 && !isBlocked
  }

  /** Holds the lane until an answer from outside is there, then starts it again. */
  block(account: Account, answer: Promise<void>): void {
    account.isBlocked = true
    void answer.finally(() => {
      account.isBlocked = false
      this.#options.onUnblocked(account)
      this.wake(account)
    })
  }

  /** Takes an event away that waits first in its lane, or first of those that stand aside. False when it does not. */
  drop(event: UpstreamEvent, account: Account): boolean {
    const queue = [account.waiting, account.aside].find(([first]) => first === event)
    if (!queue) return false
    queue.shift()
    this.#release(event.message.bytes.length, event, account)
    this.#countWaiting(account)
    return true
  }

  /** Puts an event that came back from verification before all that have not started yet. */
  giveBack(event: UpstreamEvent, account: Account, frame: Uint8Array): void {
    account.returned.push(event)
    this.hold(event, account, frame)
  }

  hasRoom(events: number, { message, source }: UpstreamEvent, account: Account): boolean {
    const { length } = message.bytes
    return (
      events < waitingMax.eventsPerAccount &&
      account.waitingBytes + length <= waitingMax.bytesPerAccount &&
      source.waitingBytes + length <= waitingMax.bytesPerSource &&
      this.#waitingBytes <= waitingMax.bytes
    )
  }

  /** Keeps an event's bytes beyond the call that brought them. */
  hold(event: UpstreamEvent, account: Account, frame: Uint8Array): void {
    event.message.bytes = Buffer.from(frame)
    account.waitingBytes += frame.length
    event.source.waitingBytes += frame.length
    this.#waitingBytes += frame.length
    this.#waiting.add(account)
  }

  /** Nothing starts any more: what waits is read again from its source after the next start. */
  close(): void {
    this.#isClosed = true
  }

  /** Does not count an account any more until its lane is empty: it may wait for long, and its source should not. */
  discount(account: Account): void {
    account.isStuck = true
    this.#countWaiting(account)
  }

  /** Keeps count of the accounts that wait, for the source of the first event of each. */
  #countWaiting(account: Account): void {
    const head = account.waiting[0]
    if (!head) account.isStuck = false
    const before = account.waitsFor
    const now = account.isStuck ? undefined : head?.source
    if (before === now) return
    account.waitsFor = now
    if (before && --before.waitingAccounts === waitingAccounts.low) this.#options.onManyWaiting(before, false)
    if (now && ++now.waitingAccounts === waitingAccounts.high) this.#options.onManyWaiting(now, true)
  }

  #release(bytes: number, { source }: UpstreamEvent, account: Account): void {
    account.waitingBytes -= bytes
    source.waitingBytes -= bytes
    this.#waitingBytes -= bytes
    if (account.waitingBytes === 0) this.#waiting.delete(account)
  }
}

/** Whether an event came before another one of the same source. */
export function isBefore({ source, upstreamSeq }: UpstreamEvent, other: UpstreamEvent): boolean {
  return source === other.source && upstreamSeq < other.upstreamSeq
}

function isCrowded({ waiting, waitingBytes }: Account): boolean {
  return (
    waiting.length >= waitingMax.eventsPerAccount * crowdedShare ||
    waitingBytes >= waitingMax.bytesPerAccount * crowdedShare
  )
}
