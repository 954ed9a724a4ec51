import type { Source } from '../sources/source.ts'
import type { Account } from '../state/account.ts'

/** As long as reading one DID document may take, and a little more. */
const breakMsMax = 10_000

/**
 * Sources that are not read for a moment, because the lane of an account is filling up while what it waits for is on
 * its way: a source that is read faster than a DID document would lose events otherwise. Each wait of a lane stops its
 * source once, and not for long, so that no account can hold up its host.
 */
export class SourceBreaks {
  readonly #onPaused: (source: Source, isPaused: boolean) => void
  /** Breaks of this wait; without a timer when it is over and the lane still waits. */
  readonly #breaks = new Map<Account, { source: Source; timer: NodeJS.Timeout | undefined }>()
  readonly #accountsBySource = new Map<Source, number>()

  constructor(onPaused: (source: Source, isPaused: boolean) => void) {
    this.#onPaused = onPaused
  }

  begin(account: Account, source: Source): void {
    if (this.#breaks.has(account)) return
    const timer = setTimeout(() => this.#release(account), breakMsMax).unref()
    this.#breaks.set(account, { source, timer })
    const accounts = this.#accountsBySource.get(source) ?? 0
    this.#accountsBySource.set(source, accounts + 1)
    if (accounts === 0) this.#onPaused(source, true)
  }

  /** The lane does not wait any more. */
  end(account: Account): void {
    if (!this.#breaks.has(account)) return
    this.#release(account)
    this.#breaks.delete(account)
  }

  #release(account: Account): void {
    const each = this.#breaks.get(account)
    if (!each?.timer) return
    clearTimeout(each.timer)
    each.timer = undefined
    const accounts = (this.#accountsBySource.get(each.source) ?? 1) - 1
    if (accounts > 0) this.#accountsBySource.set(each.source, accounts)
    else {
      this.#accountsBySource.delete(each.source)
      this.#onPaused(each.source, false)
    }
  }
}
