/**
 * The accounts that the index has rows of, whether they are hidden, and which of them need their handle looked up.
 * Accounts of the network that never wrote a record of ours leave no row.
 */
import type { IndexConnection } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'

export interface AccountState {
  status: string
  statusSeq: bigint
  hostStatus: string | null
  hidden: bigint
}

/**
 * Whether an account's records are left out. What the stream says counts, and so does what the account's host says
 * later: an event may have been missed. The host alone cannot undo a takedown or a suspension, which may be a relay's.
 */
function isHidden(status: string, hostStatus: string | null): boolean {
  if (hostStatus !== null && hostStatus !== 'active') return true
  return status !== 'active' && !(status === 'deactivated' && hostStatus === 'active')
}

export class Accounts {
  readonly #sql
  /** Known states of the running transaction; forgotten with it. */
  readonly #states = new Map<Did, AccountState>()

  constructor({ sqlite }: IndexConnection) {
    this.#sql = {
      get: sqlite.prepare<[string], AccountState>(
        'select status, statusSeq, hostStatus, hidden from accounts where did = ?',
      ),
      put: sqlite.prepare<(string | bigint | null)[]>(
        `insert into accounts (did, status, statusSeq, hostStatus, hidden, checkedAt) values (?, ?, ?, ?, ?, 0)
         on conflict (did) do update set status = excluded.status, statusSeq = excluded.statusSeq,
           hostStatus = excluded.hostStatus, hidden = excluded.hidden`,
      ),
      requestHandle: sqlite.prepare<[string, bigint]>(
        `insert into handleRequests (did, seq, attempts, dueAt) values (?, ?, 0, 0)
         on conflict (did) do update set seq = excluded.seq, attempts = 0, dueAt = 0 where excluded.seq > seq`,
      ),
      forgetHandle: ['handles', 'handleRequests'].map((table) =>
        sqlite.prepare<[string]>(`delete from ${table} where did = ?`),
      ),
    }
  }

  /** What is known of an account; undefined when the index has nothing of it. */
  get(did: Did): AccountState | undefined {
    const known = this.#states.get(did) ?? this.#sql.get.get(did)
    if (known !== undefined) this.#states.set(did, known)
    return known
  }

  /** The account of a record, or one that a record names and a feed may show. The first time, asks for its handle. */
  meet(did: Did): AccountState {
    const known = this.get(did)
    if (known !== undefined) return known
    this.#sql.requestHandle.run(did, 0n)
    return this.put(did, { status: 'active', statusSeq: 0n, hostStatus: null })
  }

  put(did: Did, said: Omit<AccountState, 'hidden'>): AccountState {
    const state = { ...said, hidden: isHidden(said.status, said.hostStatus) ? 1n : 0n }
    this.#sql.put.run(did, state.status, state.statusSeq, state.hostStatus, state.hidden)
    this.#states.set(did, state)
    return state
  }

  /** Asks for the handle to be looked up anew because of the identity event `seq`. */
  requestHandle(did: Did, seq: number): void {
    this.#sql.requestHandle.run(did, BigInt(seq))
  }

  forgetHandle(did: Did): void {
    for (const statement of this.#sql.forgetHandle) statement.run(did)
  }

  endTransaction(): void {
    this.#states.clear()
  }
}
