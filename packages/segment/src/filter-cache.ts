/**
 * Filters that were read, up to a bound of bytes. What is there stays, because plans look at all in turn. But the filters
 * of the blocks of a segment, which are large, make room for those of whole segments, which every plan asks first.
 */
export class FilterCache {
  readonly #bytesMax: number
  readonly #filters = new Map<object, { value: unknown; bytes: number }>()
  /** Keys of those that make room. */
  readonly #lesser = new Set<object>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /**
   * What a key stands for, loaded if it is not there.
   * @param bytes what it costs to keep.
   * @param rank `first` takes the room of what is `lesser` when there is no other.
   */
  async get<T>(
    key: object,
    { bytes, rank }: { bytes: number; rank: 'first' | 'lesser' },
    load: () => Promise<T>,
  ): Promise<T> {
    const known = this.#filters.get(key)
    if (known) return known.value as T // a key stands for one value
    const value = await load()
    if (this.#filters.has(key)) return value
    if (rank === 'first') this.#makeRoom(bytes)
    if (this.#bytes + bytes <= this.#bytesMax) {
      this.#filters.set(key, { value, bytes })
      if (rank === 'lesser') this.#lesser.add(key)
      this.#bytes += bytes
    }
    return value
  }

  delete(key: object): void {
    this.#bytes -= this.#filters.get(key)?.bytes ?? 0
    this.#filters.delete(key)
    this.#lesser.delete(key)
  }

  #makeRoom(bytes: number): void {
    if (bytes > this.#bytesMax) return
    for (const key of this.#lesser) {
      if (this.#bytes + bytes <= this.#bytesMax) return
      this.delete(key)
    }
  }
}
