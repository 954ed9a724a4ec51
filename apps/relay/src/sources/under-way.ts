import type { Receipt, UpstreamEvent } from './upstream-event.ts'

/** Receipts that were passed are dropped from memory in steps of so many. */
const stepMax = 1024

/** The messages of one source in the order of arrival, from the first that its cursor has not passed. */
export class UnderWay {
  #receipts: Receipt[] = []
  #first = 0
  /** No receipt before it is open. */
  #firstOpen = 0
  /** Newest of our seqs that was told of by `hasNewAhead`. */
  #aheadSeq = 0

  get newest(): Receipt | undefined {
    return this.#receipts.at(-1)
  }

  /** Messages that the cursor has not passed. */
  get size(): number {
    return this.#receipts.length - this.#first
  }

  /** The first event that is not done. */
  get oldest(): UpstreamEvent | undefined {
    return this.#receipts[this.#moveFirstOpen()]?.event
  }

  /** Messages from the first that is not done. */
  get openSpan(): number {
    return this.#receipts.length - this.#moveFirstOpen()
  }

  begin(receipt: Receipt): void {
    this.#receipts.push(receipt)
  }

  /** Hands over the receipts at the front that are done, and whose trace in our log is durable. */
  pass(durableSeq: number, onPassed: (receipt: Receipt) => void): void {
    for (
      let receipt = this.#receipts[this.#first];
      receipt && isDone(receipt, durableSeq);
      receipt = this.#receipts[++this.#first]
    )
      onPassed(receipt)
    if (this.#first <= stepMax && this.#first < this.#receipts.length) return
    this.#receipts = this.#receipts.slice(this.#first)
    this.#firstOpen = Math.max(0, this.#firstOpen - this.#first)
    this.#first = 0
  }

  /** Whether more messages that the cursor has not passed are durable in our log than at the last call. */
  hasNewAhead(durableSeq: number): boolean {
    let hasNew = false
    for (let at = this.#first; at < this.#receipts.length; at++) {
      const { loggedAs = 0 } = this.#receipts[at] ?? {}
      if (loggedAs <= this.#aheadSeq || loggedAs > durableSeq) continue
      this.#aheadSeq = loggedAs
      hasNew = true
    }
    return hasNew
  }

  /** Seqs of the messages of an epoch that the cursor has not passed and that are done, their trace in our log durable. */
  ahead(epoch: number, durableSeq: number): number[] {
    return this.#receipts
      .slice(this.#first)
      .filter((receipt) => receipt.epoch === epoch && isDone(receipt, durableSeq))
      .map(({ upstreamSeq }) => upstreamSeq)
  }

  #moveFirstOpen(): number {
    this.#firstOpen = Math.max(this.#firstOpen, this.#first)
    while (this.#receipts[this.#firstOpen]?.loggedAs !== undefined) this.#firstOpen++
    return this.#firstOpen
  }
}

function isDone({ loggedAs, doneBy }: Receipt, durableSeq: number): boolean {
  return loggedAs !== undefined && doneBy <= durableSeq
}
