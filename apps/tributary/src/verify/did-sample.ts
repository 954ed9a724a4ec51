import { hash, randomUUID } from 'node:crypto'
import type { Did } from '@tributary/protocol'

/**
 * Some of the DIDs that are added, each as likely as any other, however often it is added. Only these are held: of all
 * DIDs those with the lowest hashes.
 */
export class DidSample {
  readonly #max: number
  readonly #salt: string
  readonly #ranks = new Map<Did, string>()
  /** Nothing from here on is among the lowest. */
  #bound = '\uffff'

  /** @param salt decides which are taken. Default: others each time. */
  constructor(max: number, salt: string = randomUUID()) {
    this.#max = max
    this.#salt = salt
  }

  add(did: Did): void {
    const rank = hash('sha256', this.#salt + did, 'hex')
    if (rank >= this.#bound || this.#ranks.has(did)) return
    // What was cut out of a column's text would keep all of it.
    this.#ranks.set(structuredClone(did), rank)
    if (this.#ranks.size > 2 * this.#max) this.#prune()
  }

  /** At most `max`, in no order that means anything. */
  get dids(): Did[] {
    this.#prune()
    return [...this.#ranks.keys()]
  }

  #prune(): void {
    const lowest = [...this.#ranks].toSorted(([, a], [, b]) => (a < b ? -1 : 1))
    for (const [did] of lowest.splice(this.#max)) this.#ranks.delete(did)
    if (this.#ranks.size === this.#max) this.#bound = lowest.at(-1)?.[1] ?? ''
  }
}
