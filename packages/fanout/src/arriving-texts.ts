/** A consumer that may send text, as far as this file is concerned. */
export interface TextSender {
  readonly remoteAddress: string
  readonly feed: { cutOff: () => void }
}

/** What a chunk of bytes costs to keep beside its bytes. */
const bytesPerChunk = 256

/**
 * Counts what is kept of messages that have not arrived whole. Beyond a bound the sender that holds most, of the network
 * that holds most, is cut off, so that nobody keeps the small messages of others out.
 */
export class ArrivingTexts {
  readonly #bytesMax: number
  readonly #networkOf: (address: string) => string
  readonly #held = new Map<TextSender, number>()
  #sum = 0

  constructor(bytesMax: number, networkOf: (address: string) => string) {
    this.#bytesMax = bytesMax
    this.#networkOf = networkOf
  }

  /** Bytes that are kept of all senders. */
  get bytes(): number {
    return this.#sum
  }

  /** A chunk of a sender has arrived. */
  add(sender: TextSender, bytes: number): void {
    this.#set(sender, (this.#held.get(sender) ?? 0) + bytes + bytesPerChunk)
    while (this.#sum > this.#bytesMax) {
      const largest = this.#largest()
      if (!largest) return
      this.forget(largest)
      largest.feed.cutOff()
    }
  }

  /** Part of what has arrived was a whole control frame, and is not kept. */
  less(sender: TextSender, bytes: number): void {
    const held = this.#held.get(sender)
    if (held !== undefined) this.#set(sender, Math.max(0, held - bytes - bytesPerChunk))
  }

  /** A message has arrived whole, and so many bytes after it. */
  arrived(sender: TextSender, bytesAfter: number): void {
    this.#set(sender, bytesAfter)
  }

  /** The sender is gone. */
  forget(sender: TextSender): void {
    this.#set(sender, 0)
  }

  #set(sender: TextSender, bytes: number): void {
    this.#sum += bytes - (this.#held.get(sender) ?? 0)
    if (bytes > 0) this.#held.set(sender, bytes)
    else this.#held.delete(sender)
  }

  #largest(): TextSender | undefined {
    const networks = new Map<string, { bytes: number; largest: TextSender; most: number }>()
    for (const [sender, held] of this.#held) {
      const network = this.#networkOf(sender.remoteAddress)
      const before = networks.get(network) ?? { bytes: 0, largest: sender, most: 0 }
      const isLarger = held > before.most
      networks.set(network, {
        bytes: before.bytes + held,
        largest: isLarger ? sender : before.largest,
        most: isLarger ? held : before.most,
      })
    }
    let found: { bytes: number; largest: TextSender } | undefined
    for (const each of networks.values()) if (!found || each.bytes > found.bytes) found = each
    return found?.largest
  }
}
