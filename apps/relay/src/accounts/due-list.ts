/** Items in the order in which they are due. */
export class DueList<T> {
  /** The item that is due next is the last one. */
  readonly #entries: { item: T; dueMs: number }[] = []

  add(item: T, dueMs: number): void {
    this.#entries.splice(this.#placeOf(dueMs), 0, { item, dueMs })
  }

  /** Takes an item out. False when it is not here. @param dueMs as it was added. */
  delete(item: T, dueMs: number): boolean {
    for (let at = this.#placeOf(dueMs); this.#entries[at]?.dueMs === dueMs; at++) {
      if (this.#entries[at]?.item !== item) continue
      this.#entries.splice(at, 1)
      return true
    }
    return false
  }

  /** Takes out the item that is due first. Undefined when none is due. */
  take(nowMs: number): T | undefined {
    const next = this.#entries.at(-1)
    if (!next || next.dueMs > nowMs) return undefined
    this.#entries.pop()
    return next.item
  }

  /** The clock was set back: all is due that much earlier by it. @returns all items. */
  setBack(ms: number): T[] {
    for (const entry of this.#entries) entry.dueMs -= ms
    return this.#entries.map(({ item }) => item)
  }

  /** The first place whose item is due at this time or before. Of equal times the last added is due last. */
  #placeOf(dueMs: number): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#entries[middle]?.dueMs ?? 0) > dueMs) low = middle + 1
      else high = middle
    }
    return low
  }
}
