import type { LogSlice } from '@tributary/event-log'
import { isContent } from '../pipeline/record-kinds.ts'
import type { Account } from '../state/account.ts'

/**
 * The accounts whose content no reader gets any more, wherever it stands: on disk, in memory, or about to be shown.
 * Nothing is logged of an account while it is hidden, so only what stands below the last hiding needs a look.
 */
export class HiddenAccounts {
  /** By the rows of the accounts: the ids that they have in the log. */
  readonly #ids = new Map<number, bigint>()
  /** How many of the accounts have an id. With some effort one person makes two DIDs of the same id. */
  readonly #counts = new Map<bigint, number>()
  #lastHiddenSeq = 0

  /** @param nextSeq the seq that the log gives out next. */
  set({ row, logId }: Pick<Account, 'row' | 'logId'>, isHidden: boolean, nextSeq: number): void {
    const known = this.#ids.get(row)
    if (known === (isHidden ? logId : undefined)) return
    if (known !== undefined) {
      this.#ids.delete(row)
      this.#count(known, -1)
    }
    if (!isHidden) return
    this.#ids.set(row, logId)
    this.#count(logId, 1)
    this.#lastHiddenSeq = nextSeq
  }

  #count(logId: bigint, change: 1 | -1): void {
    const count = (this.#counts.get(logId) ?? 0) + change
    if (count > 0) this.#counts.set(logId, count)
    else this.#counts.delete(logId)
  }

  /** The payloads of a slice that readers may have: in one piece where that is all. */
  visible(slice: LogSlice): Buffer[] {
    if (slice.firstSeq > this.#lastHiddenSeq || this.#counts.size === 0 || !this.#hasHidden(slice))
      return [slice.bytes]
    const payloads: Buffer[] = []
    for (let row = 0; row < slice.count; row++)
      if (!this.isHidden(slice, row)) payloads.push(slice.payloadAt(row))
    return payloads
  }

  isHidden(slice: LogSlice, row: number): boolean {
    return isContent(slice.kindAt(row)) && this.#counts.has(slice.accountAt(row))
  }

  #hasHidden(slice: LogSlice): boolean {
    for (let row = 0; row < slice.count; row++) if (this.isHidden(slice, row)) return true
    return false
  }
}
