/** A map that forgets what was not used for the longest time. It holds between half of `max` and `max` entries. */
export class RecentMap<K, V> {
  readonly #generationMax: number
  #young = new Map<K, V>()
  #old = new Map<K, V>()

  constructor(max: number) {
    this.#generationMax = Math.ceil(max / 2)
  }

  get(key: K): V | undefined {
    const value = this.#young.get(key)
    if (value !== undefined) return value
    const older = this.#old.get(key)
    if (older !== undefined) this.set(key, older)
    return older
  }

  set(key: K, value: V): void {
    if (this.#young.size >= this.#generationMax) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }

  delete(key: K): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }
}
