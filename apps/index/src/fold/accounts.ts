/**
 * The accounts that wrote records of ours, whether they are hidden, and which of them need their handle looked up. Of the
 * other accounts of the network only an inactive state is kept, because a record of theirs may come after it.
 */
import type { IndexConnection } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'

export interface AccountState {
  status: string
  statusSeq: bigint
  hostStatus: string | null
  hidden: bigint
  /** 1 when it wrote a record of ours since it was last deleted. */
  isAuthor: bigint
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
        'select status, statusSeq, hostStatus, hidden, isAuthor from accounts where did = ?',
      ),
      put: sqlite.prepare<(string | bigint | null)[]>(
        `insert into accounts (did, status, statusSeq, hostStatus, hidden, isAuthor, checkedAt)
         values (?, ?, ?, ?, ?, ?, 0)
         on conflict (did) do update set status = excluded.status, statusSeq = excluded.statusSeq,
           hostStatus = excluded.hostStatus, hidden = excluded.hidden, isAuthor = excluded.isAuthor`,
      ),
      forget: sqlite.prepare<[string]>('delete from accounts where did = ?'),
      requestHandle: sqlite.prepare<[string, bigint]>(
        `insert into handleRequests (did, seq, attempts, dueAt) values (?, ?, 0, 0)
         on conflict (did) do update set seq = excluded.seq, attempts = 0, dueAt = 0 where excluded.seq > seq`,
      ),
      forgetHandle: ['handles', 'handleRequests'].map((table) =>
        sqlite.prepare<[string]>(`delete from ${table} where did = ?`),
      ),
    }
  }

  /** What is known of an account; undefined when it is not known to be inactive and wrote nothing of ours. */
  get(did: Did): AccountState | undefined {
    const known = this.#states.get(did) ?? this.#sql.get.get(did)
    if (known !== undefined) this.#states.set(did, known)
    return known
  }

  /** The account of a record. The first time, asks for its handle. */
  meet(did: Did): AccountState {
    const known = this.get(did)
    if (known?.isAuthor === 1n) return known
    this.#sql.requestHandle.run(did, 0n)
    const state = known ?? { status: 'active', statusSeq: 0n, hostStatus: null }
    return this.put(did, { ...state, isAuthor: 1n })
  }

  put(did: Did, said: Omit<AccountState, 'hidden'>): AccountState {
    const state = { ...said, hidden: isHidden(said.status, said.hostStatus) ? 1n : 0n }
    const { status, statusSeq, hostStatus, hidden, isAuthor } = state
    this.#sql.put.run(did, status, statusSeq, hostStatus, hidden, isAuthor)
    this.#states.set(did, state)
    return state
  }

  /** Nothing is to be known of the account any more. */
  forget(did: Did): void {
    this.#sql.forget.run(did)
    this.#states.delete(did)
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
