import { decode } from '@atcute/cbor'
import { type Row, rowKind } from '@tributary/segment'
import type { FrameRun } from './frame-run.ts'

/** Words for why an account is not active that are about its relay, and not about what may be shown of it. */
const shownStatuses: readonly unknown[] = ['throttled', 'desynchronized']

/**
 * Whether what an account wrote may be shown. Taken down, suspended, deactivated and deleted accounts are hidden, and so
 * are those that are not active for a reason that nobody knows.
 */
export function isHidden({ active, status }: { active: boolean; status?: unknown }): boolean {
  return !active && !shownStatuses.includes(status)
}

/** Whether what an account wrote leaves the archive too: it was taken down or deleted, and not only hidden for a while. */
export function leavesArchive(word: { active: boolean; status?: unknown }): boolean {
  return isHidden(word) && (word.status === 'takendown' || word.status === 'deleted')
}

/**
 * The accounts whose records nobody is shown: live, from memory or from the archive, from the moment on at which the
 * `#account` event that says so is visible, or at which the relay is found to say so. Identity, account and sync events of them are shown.
 */
export class HiddenAccounts {
  readonly #dids: Set<string>
  readonly #knownSeq: number

  /** @param knownSeq rows up to here say nothing new of anybody. What is known may be newer than they are. */
  constructor(dids: Iterable<string> = [], knownSeq = 0) {
    this.#dids = new Set(dids)
    this.#knownSeq = knownSeq
  }

  get size(): number {
    return this.#dids.size
  }

  has(did: string): boolean {
    return this.#dids.has(did)
  }

  /** Takes note of what a row says of its account, if it is one that does. Rows come in the order of their seq. */
  note({ seq, kind, did, payload }: Row): void {
    if (kind !== rowKind.account || seq <= this.#knownSeq) return
    const body = decode(payload) as { active: boolean; status?: unknown } // checked before it became a row
    this.set(did, isHidden(body))
  }

  /** What is known of an account that no row says. */
  set(did: string, isDown: boolean): void {
    if (isDown) this.#dids.add(did)
    else this.#dids.delete(did)
  }

  /** Whether row `i` of a run is a record of a hidden account. */
  hides(run: FrameRun, i: number): boolean {
    return this.#dids.size > 0 && run.kindAt(i) === 'commit' && this.#dids.has(run.didAt(i))
  }
}
