/**
 * Who holds places, by the share that each counts for. A newcomer takes the place of the newest holder of the largest
 * share, if that share stays no smaller than its own. So no share has more than another that wants more, and who came
 * first stays longest.
 */
export class SharedPlaces<H> {
  readonly #holders = new Map<string, Set<H>>()
  readonly #shareOf = new Map<H, string>()
  /** Names of the shares, by how many holders they have. The last ones are the largest. */
  readonly #bySize: Set<string>[] = []

  /** How many hold a place of a share. */
  of(share: string): number {
    return this.#holders.get(share)?.size ?? 0
  }

  add(share: string, holder: H): void {
    const holders = this.#holders.get(share) ?? new Set()
    this.#holders.set(share, holders)
    this.#shareOf.set(holder, share)
    this.#move(share, holders.size, holders.add(holder).size)
  }

  /** Takes the place of a holder back, if it has one. */
  delete(holder: H): void {
    const share = this.#shareOf.get(holder) ?? ''
    const holders = this.#holders.get(share)
    if (!this.#shareOf.delete(holder) || !holders?.delete(holder)) return
    if (holders.size === 0) this.#holders.delete(share)
    this.#move(share, holders.size + 1, holders.size)
  }

  /** A share that has no fewer holders than any other. Undefined when there are no holders. */
  get largest(): string | undefined {
    return this.#bySize.at(-1)?.values().next().value
  }

  /** The holder of a share that came first. */
  oldestOf(share: string): H | undefined {
    return this.#holders.get(share)?.values().next().value
  }

  /** Who gives way to a newcomer of a share. Undefined: nobody, so that it cannot come in when all places are taken. */
  givingWayTo(share: string): H | undefined {
    const { largest = '' } = this
    return this.of(largest) > this.of(share) + 1 ? [...(this.#holders.get(largest) ?? [])].at(-1) : undefined
  }

  #move(share: string, before: number, now: number): void {
    this.#bySize[before]?.delete(share)
    if (now > 0) (this.#bySize[now] ??= new Set()).add(share)
    while (this.#bySize.length > 0 && !this.#bySize.at(-1)?.size) this.#bySize.pop()
  }
}
