/** Counts what consumers take up, whatever it is, in all and by the address that they come from. */
export class AddressCount {
  readonly #byAddress = new Map<string, number>()
  #all = 0

  get all(): number {
    return this.#all
  }

  of(address: string): number {
    return this.#byAddress.get(address) ?? 0
  }

  /** @param change below 0 for what is given back, which must have been taken. */
  add(address: string, change: number): void {
    this.#all += change
    const here = this.of(address) + change
    if (here > 0) this.#byAddress.set(address, here)
    else this.#byAddress.delete(address)
  }
}
