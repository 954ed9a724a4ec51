import { deferred } from './deferred.ts'
import { numberOptions } from './number-options.ts'

/** Where a cursor survives a restart. */
export interface CursorStore {
  /** The saved cursor, undefined when there is none yet. */
  load(): Promise<number | undefined>
  /** Resolves once the cursor is durable. */
  save(cursor: number): Promise<void>
}

export interface CheckpointOptions {
  /** Pieces of work under way at a time; `track` waits above it. Default 1000. */
  pendingMax?: number
}

/**
 * Saves how far a consumer has come when it deals with batches concurrently or later: only the contiguous prefix of
 * what was acknowledged, and never less than what was saved before. After a crash everything not saved comes again.
 */
export class Checkpoint {
  readonly #store: CursorStore
  readonly #pendingMax: number
  /** In the order of tracking, oldest first. */
  readonly #pending: { cursor: number; done: boolean }[] = []
  #acknowledged: number | undefined
  #saved: number | undefined
  #saving: Promise<void> | undefined
  #failure: { error: unknown } | undefined
  #room = deferred()

  private constructor(store: CursorStore, saved: number | undefined, options: CheckpointOptions) {
    this.#store = store
    this.#saved = saved
    this.#acknowledged = saved
    this.#pendingMax = numberOptions({ pendingMax: 1 }, { pendingMax: 1000 }, options).pendingMax
  }

  /** Loads the stored cursor. Throws what the store throws. */
  static async open(store: CursorStore, options: CheckpointOptions = {}): Promise<Checkpoint> {
    return new Checkpoint(store, await store.load(), options)
  }

  /** Where to go on reading: the end of the contiguous acknowledged prefix. Undefined before the first. */
  get cursor(): number | undefined {
    return this.#acknowledged
  }

  /**
   * Announces work up to `cursor`, in rising order, and resolves with the function that says it is done. Waits while
   * too much is under way. Throws what saving threw, since then nothing more would be remembered.
   */
  async track(cursor: number): Promise<() => void> {
    while (this.#pending.length >= this.#pendingMax && !this.#failure) await this.#room.promise
    this.#throwFailure()
    const last = this.#pending.at(-1)?.cursor ?? this.#acknowledged ?? 0
    if (cursor < last) throw new RangeError(`cursor ${cursor} is tracked after ${last}`)
    const entry = { cursor, done: false }
    this.#pending.push(entry)
    return () => {
      entry.done = true
      this.#advance()
    }
  }

  /** Waits until everything acknowledged so far is saved. Throws what saving threw. */
  async flush(): Promise<void> {
    while (!this.#failure && this.#isBehind()) await (this.#saving ?? this.#save())
    this.#throwFailure()
  }

  #advance(): void {
    let first = this.#pending[0]
    while (first?.done) {
      this.#acknowledged = Math.max(this.#acknowledged ?? 0, first.cursor)
      this.#pending.shift()
      first = this.#pending[0]
    }
    this.#announceRoom()
    if (this.#isBehind()) void (this.#saving ?? this.#save())
  }

  #isBehind(): boolean {
    return this.#acknowledged !== undefined && this.#acknowledged > (this.#saved ?? -1)
  }

  /** One save at a time, until what is saved is what is acknowledged. Never rejects: the failure is kept. */
  async #save(): Promise<void> {
    const saving = async (): Promise<void> => {
      try {
        while (this.#acknowledged !== undefined && this.#isBehind()) {
          const cursor = this.#acknowledged
          await this.#store.save(cursor)
          this.#saved = cursor
        }
      } catch (error) {
        this.#failure = { error }
        this.#announceRoom()
      }
    }
    this.#saving = saving()
    await this.#saving
    this.#saving = undefined
  }

  #announceRoom(): void {
    this.#room.resolve()
    this.#room = deferred()
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure.error
  }
}
