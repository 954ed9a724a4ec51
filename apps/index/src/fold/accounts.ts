/**
 * The accounts that wrote records of ours, whether they are hidden, and which of them need their handle looked up. Of the
 * other accounts of the network only an inactive state is kept, because a record of theirs may come after it.
 */
import type { RowOf } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { IndexRows } from './index-rows.ts'

export type AccountState = RowOf<'accounts'>

/** Inactive states that an account's host can end. What else is said may be its relay's word, such as a takedown. */
const endedByHost: ReadonlySet<string> = new Set(['deactivated', 'deleted'])

/** Besides being active, what is said of an account for its relay's sake, and not for what may be shown: streams show it, too. */
const shownStatuses: ReadonlySet<string> = new Set(['active', 'throttled', 'desynchronized'])

/** The words of the stream and of its host about an account. */
type Said = Omit<AccountState, 'hidden' | 'checkedAt'>

/** The state of an account after something was said. When its host was last asked stays as it is. */
export function stateOf(said: Said, known: AccountState | undefined): AccountState {
  const hidden = isHidden(said.status, said.hostStatus) ? 1n : 0n
  return { ...said, hidden, checkedAt: known?.checkedAt ?? 0n }
}

/** The account of a record. The first time, asks for its handle. */
export function meet(rows: IndexRows, did: Did): AccountState {
  const known = rows.accounts.get(did)
  if (known?.isAuthor === 1n) return known
  requestHandle(rows, did, 0)
  const { status, statusSeq, hostStatus } = known ?? { status: 'active', statusSeq: 0n, hostStatus: null }
  const state = stateOf({ did, status, statusSeq, hostStatus, isAuthor: 1n }, known)
  rows.accounts.put(state)
  return state
}

/** Asks for the handle to be looked up again because of the identity event `seq`; 0 for an account that is met. */
export function requestHandle(rows: IndexRows, did: Did, seq: number): void {
  const asked = rows.handleRequests.get(did)
  if (asked !== undefined && asked.seq >= BigInt(seq)) return
  rows.handleRequests.put({ did, seq: BigInt(seq), attempts: 0n, dueAt: 0n })
}

export function forgetHandle(rows: IndexRows, did: Did): void {
  rows.handles.remove(did)
  rows.handleRequests.remove(did)
}

/** Whether an account of this status is shown, if nobody says otherwise. */
export function isShown(status: string): boolean {
  return shownStatuses.has(status)
}

/**
 * Whether an account's records are left out. What the stream says counts, and so does what the account's host says
 * later: an event may have been missed. The host alone cannot undo a takedown or a suspension, which may be a relay's.
 */
function isHidden(status: string, hostStatus: string | null): boolean {
  if (hostStatus !== null && !isShown(hostStatus)) return true
  return !isShown(status) && !(endedByHost.has(status) && hostStatus === 'active')
}
