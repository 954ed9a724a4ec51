import type { LogSlice } from '@tributary/event-log'
import { isContent } from '../pipeline/record-kinds.ts'

/**
 * The accounts whose content no reader gets any more, wherever it stands: on disk, in memory, or about to be shown.
 * Nothing is logged of an account while it is hidden, so only what stands below the last hiding needs a look.
 */
export class HiddenAccounts {
  readonly #ids = new Set<bigint>()
  #lastHiddenSeq = 0

  /** @param nextSeq the seq that the log gives out next. */
  set(logId: bigint, isHidden: boolean, nextSeq: number): void {
    if (!isHidden) this.#ids.delete(logId)
    else if (!this.#ids.has(logId)) {
      this.#ids.add(logId)
      this.#lastHiddenSeq = nextSeq
    }
  }

  /** The payloads of a slice that readers may have: in one piece where that is all. */
  visible(slice: LogSlice): Buffer[] {
    if (slice.firstSeq > this.#lastHiddenSeq || this.#ids.size === 0 || !this.#hasHidden(slice))
      return [slice.bytes]
    const payloads: Buffer[] = []
    for (let row = 0; row < slice.count; row++)
      if (!this.isHidden(slice, row)) payloads.push(slice.payloadAt(row))
    return payloads
  }

  isHidden(slice: LogSlice, row: number): boolean {
    return isContent(slice.kindAt(row)) && this.#ids.has(slice.accountAt(row))
  }

  #hasHidden(slice: LogSlice): boolean {
    for (let row = 0; row < slice.count; row++) if (this.isHidden(slice, row)) return true
    return false
  }
}
