/** A consumer that may send text, as far as this file is concerned. */
export interface TextSender {
  readonly remoteAddress: string
  readonly feed: { cutOff: () => void }
}

/** What a chunk of bytes costs to keep beside its bytes. */
const bytesPerChunk = 256

/**
 * Counts what is kept of messages that have not arrived whole, and of those that are being read. Beyond a bound the sender that holds most, of the network
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

  /** Bytes that are kept of one sender. */
  bytesOf(sender: TextSender): number {
    return this.#held.get(sender) ?? 0
  }

  /** A chunk of a sender has arrived. */
  add(sender: TextSender, bytes: number): void {
    this.keep(sender, bytes + bytesPerChunk)
  }

  /** So many bytes more are kept of a sender. */
  keep(sender: TextSender, bytes: number): void {
    this.#set(sender, this.bytesOf(sender) + bytes)
    while (this.#sum > this.#bytesMax) {
      const largest = this.#largest()
      if (!largest) return
      largest.feed.cutOff()
      this.forget(largest)
    }
  }

  /** Part of what has arrived was a whole control frame, and is not kept. */
  lessChunk(sender: TextSender, bytes: number): void {
    this.less(sender, bytes + bytesPerChunk)
  }

  /** So many bytes are not kept any more. */
  less(sender: TextSender, bytes: number): void {
    this.#set(sender, Math.max(0, this.bytesOf(sender) - bytes))
  }

  /** A message has arrived whole. So many bytes are kept without it. */
  arrived(sender: TextSender, keptBytes: number): void {
    this.#set(sender, keptBytes)
  }

  /** The sender is gone. */
  forget(sender: TextSender): void {
    this.#set(sender, 0)
  }

  #set(sender: TextSender, bytes: number): void {
    this.#sum += bytes - this.bytesOf(sender)
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
