import { networkOf } from './network-of.ts'

/** Counts what clients take up, whatever it is, in all and by the network that each comes from (`networkOf`). */
export class AddressCount {
  readonly #byNetwork = new Map<string, number>()
  #all = 0

  get all(): number {
    return this.#all
  }

  /** Networks that take up anything. */
  get size(): number {
    return this.#byNetwork.size
  }

  of(address: string): number {
    return this.#byNetwork.get(networkOf(address)) ?? 0
  }

  /** @param change below 0 for what is given back, which must have been taken. */
  add(address: string, change: number): void {
    const network = networkOf(address)
    this.#all += change
    const here = (this.#byNetwork.get(network) ?? 0) + change
    if (here > 0) this.#byNetwork.set(network, here)
    else this.#byNetwork.delete(network)
  }
}
