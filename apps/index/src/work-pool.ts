/** Works on several things at a time, each of them once at a time, without waiting for the slowest. */
export class WorkPool<Key> {
  readonly #max: number
  readonly #working = new Map<Key, Promise<void>>()
  readonly #failed = Promise.withResolvers<never>()

  /** @param max things that are worked on at a time */
  constructor(max: number) {
    this.#max = max
    // Whoever runs has it.
    this.#failed.promise.catch(() => undefined)
  }

  get size(): number {
    return this.#working.size
  }

  has(key: Key): boolean {
    return this.#working.has(key)
  }

  /** Runs what starts work here, and waits for all of that. Rejects with the first fault of either. */
  async run(loop: () => Promise<void>): Promise<void> {
    const all = async (): Promise<void> => {
      await loop()
      await Promise.all(this.#working.values())
    }
    await Promise.race([all(), this.#failed.promise])
  }

  /** Begins to work on something, which must not be under way; waits before that while too much is. */
  async start(key: Key, work: () => Promise<void>): Promise<void> {
    while (this.#working.size >= this.#max) await Promise.race(this.#working.values())
    const done = async (): Promise<void> => {
      try {
        await work()
      } catch (error) {
        this.#failed.reject(error)
      } finally {
        this.#working.delete(key)
      }
    }
    this.#working.set(key, done())
  }
}
