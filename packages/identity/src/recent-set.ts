/** A set that forgets what was added first when it is full. */
export class RecentSet<T> {
  readonly #max: number
  readonly #items = new Set<T>()

  constructor(max: number) {
    this.#max = max
  }

  add(item: T): void {
    this.#items.delete(item)
    this.#items.add(item)
    for (const first of this.#items) {
      if (this.#items.size <= this.#max) return
      this.#items.delete(first)
    }
  }

  has(item: T): boolean {
    return this.#items.has(item)
  }

  [Symbol.iterator](): SetIterator<T> {
    return this.#items.values()
  }

  /** Takes an item out. Whether it was in. */
  delete(item: T): boolean {
    return this.#items.delete(item)
  }
}
