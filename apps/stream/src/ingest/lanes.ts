/** How much may wait for one DID, and for all. */
export interface LaneLimits {
  eventsPerDid: number
  bytesPerDid: number
}

interface Lane<Item> {
  waiting: Item[]
  bytes: number
}

export interface LaneWork<Item> {
  /** Does one item. Undefined when it is done, a promise when something had to be waited for. It must not reject. */
  run: (item: Item) => Promise<void> | undefined
  /** An item that its full lane has no room for. */
  refuse: (item: Item) => void
  /** An item that waited is done, so there is room for others. */
  onProgress: () => void
}

/**
 * Keeps the events of one DID in order while some of them wait for an identity. A DID that waits for nothing has no
 * lane, and its events are done at once; other DIDs are never held up.
 */
export class Lanes<Item extends { readonly bytes: number }> {
  readonly #limits: LaneLimits
  readonly #work: LaneWork<Item>
  readonly #lanes = new Map<string, Lane<Item>>()
  #bytes = 0

  constructor(limits: LaneLimits, work: LaneWork<Item>) {
    this.#limits = limits
    this.#work = work
  }

  /** DIDs that wait. */
  get size(): number {
    return this.#lanes.size
  }

  /** Bytes of all events that wait. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether events of this DID wait, so that the next one will too. */
  has(did: string): boolean {
    return this.#lanes.has(did)
  }

  /** Does the item after all earlier ones of its DID. */
  push(did: string, item: Item): void {
    const lane = this.#lanes.get(did)
    if (lane) {
      this.#enqueue(lane, item)
      return
    }
    const running = this.#work.run(item)
    if (running) void this.#drain(did, item, running)
  }

  #enqueue(lane: Lane<Item>, item: Item): void {
    if (
      lane.waiting.length >= this.#limits.eventsPerDid ||
      lane.bytes + item.bytes > this.#limits.bytesPerDid
    ) {
      this.#work.refuse(item)
      return
    }
    lane.waiting.push(item)
    lane.bytes += item.bytes
    this.#bytes += item.bytes
  }

  async #drain(did: string, first: Item, running: Promise<void>): Promise<void> {
    const lane: Lane<Item> = { waiting: [], bytes: 0 }
    this.#lanes.set(did, lane)
    this.#bytes += first.bytes
    await running
    this.#bytes -= first.bytes
    this.#work.onProgress()
    for (let item = lane.waiting.shift(); item; item = lane.waiting.shift()) {
      await this.#work.run(item)
      lane.bytes -= item.bytes
      this.#bytes -= item.bytes
      this.#work.onProgress()
    }
    this.#lanes.delete(did)
  }
}
