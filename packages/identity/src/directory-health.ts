import type { Did } from '@tributary/protocol'
import { IdentityError } from './identity-error.ts'

/** DIDs for which it fails, one after the other and without an answer between, after which the directory counts as away. */
const failuresMax = 16
/** A directory that is away is tried again so often. */
const tryEveryMs = 500
/** Whoever needs it after a failure is told to come back within this time, each at a moment of its own. */
const retryMs = { min: 500, max: 5000, each: 1 }

/**
 * Whether the directory answers. While every request fails at once, two a second try it, and nobody else waits for one
 * that would fail too. That it failed is no fault of any DID: all are read again within five seconds of its return. If it fails
 * for the same few again and again, that says nothing of the others.
 */
export class DirectoryHealth {
  readonly #nowMs: () => number
  /** DIDs for which it failed since its last answer, at most `failuresMax`. */
  readonly #failed = new Set<Did>()
  #nextTryMs = 0
  #toldMs = 0

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** It answered, whatever it said of the DID. */
  noteAnswer(): void {
    this.#failed.clear()
  }

  /** It refused at once, or said that it cannot. */
  noteFailure(did: Did): void {
    if (this.#failed.size < failuresMax) this.#failed.add(did)
  }

  /** A request is sent. */
  noteTry(): void {
    this.#nextTryMs = this.#nowMs() + tryEveryMs
  }

  /** Why nothing is asked now, if so. After the clock was set back it is tried at once. */
  refusal(): IdentityError | undefined {
    const waitMs = this.#nextTryMs - this.#nowMs()
    if (this.#failed.size < failuresMax || waitMs <= 0 || waitMs > tryEveryMs) return undefined
    const retryAfterMs = this.retryAfterMs()
    return new IdentityError('unavailable', 'the directory does not answer', { retryAfterMs })
  }

  /** When to come back after a failure. */
  retryAfterMs(): number {
    const nowMs = this.#nowMs()
    const { min, max, each } = retryMs
    this.#toldMs = Math.min(Math.max(this.#toldMs + each, nowMs + min), nowMs + max)
    return this.#toldMs - nowMs
  }
}
