import { StacklessError } from '@tributary/protocol'

/** `not-found`: there is no such DID, or no longer. `invalid`: its document cannot be used. `unavailable`: nobody knows now. */
export type IdentityFault = 'not-found' | 'invalid' | 'unavailable'

/** An identity could not be had. */
export class IdentityError extends StacklessError {
  override readonly name = 'IdentityError'
  readonly reason: IdentityFault
  /** Milliseconds after which asking again can help. */
  readonly retryAfterMs: number | undefined
  /** Nobody was asked, for we ask only so many at a time: nothing is known to be wrong. */
  readonly isOwnLimit: boolean

  constructor(
    reason: IdentityFault,
    message: string,
    options: { retryAfterMs?: number; isOwnLimit?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs
    this.isOwnLimit = options.isOwnLimit ?? false
  }

  /** Whether asking again can help. */
  get retryable(): boolean {
    return this.reason === 'unavailable'
  }
}
