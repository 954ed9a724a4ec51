/** Filters that were read and checked, up to a bound of bytes. What is there stays, because plans look at all in turn. */
export class FilterCache {
  readonly #bytesMax: number
  readonly #filters = new Map<object, { value: unknown; bytes: number }>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** What a key stands for, loaded if it is not there. @param bytes what it costs to keep. */
  async get<T>(key: object, bytes: number, load: () => Promise<T>): Promise<T> {
    const known = this.#filters.get(key)
    if (known) return known.value as T // a key stands for one value
    const value = await load()
    if (!this.#filters.has(key) && this.#bytes + bytes <= this.#bytesMax) {
      this.#filters.set(key, { value, bytes })
      this.#bytes += bytes
    }
    return value
  }

  delete(key: object): void {
    this.#bytes -= this.#filters.get(key)?.bytes ?? 0
    this.#filters.delete(key)
  }
}
