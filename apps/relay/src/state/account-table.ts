/**
 * All accounts that any source has spoken for, and who of them holds one of their source's slots.
 * An account holds a slot while its host says it is active. One that becomes active when none is free is throttled:
 * known, but left out until `admit`.
 */
import type { Did } from '@tributary/protocol'
import { newAccount, type Account } from './account.ts'

/** Accounts of a source that are known without holding a slot: so many times its slots, and so many at least. */
const knownMax = { perSlot: 10, min: 100 }

export class AccountTable {
  readonly #byDid: Map<string, Account>
  readonly #knownBySource = new Map<number, number>()
  readonly #activeBySource = new Map<number, number>()
  /** Oldest first. */
  readonly #throttledBySource = new Map<number, Set<Account>>()
  readonly #nowMs: () => number
  #slotFreed: (sourceId: number) => void = () => {}
  /** Slots of a source. */
  quotaOf: (sourceId: number) => number = () => Infinity

  constructor(accounts: Map<string, Account> = new Map(), nowMs: () => number = Date.now) {
    this.#nowMs = nowMs
    this.#byDid = accounts
    const all = [...accounts.values()]
    for (const account of all.toSorted((a, b) => a.throttledAtMs - b.throttledAtMs)) this.#enter(account)
  }

  get size(): number {
    return this.#byDid.size
  }

  all(): Iterable<Account> {
    return this.#byDid.values()
  }

  get(did: string): Account | undefined {
    return this.#byDid.get(did)
  }

  /** The account, known from now on if it was not. It belongs to no source until one has spoken for it. */
  take(did: Did): Account {
    let account = this.#byDid.get(did)
    if (!account) {
      account = newAccount(did)
      this.#byDid.set(did, account)
    }
    return account
  }

  /** Forgets an account that belongs to no source. */
  forget({ did, sourceId }: Account): void {
    if (sourceId === 0) this.#byDid.delete(did)
  }

  /** Told when an account gave its slot back, be there others that wait for one or not. */
  onSlotFreed(listener: (sourceId: number) => void): void {
    this.#slotFreed = listener
  }

  /**
   * Whether a source may bring in one account more: there is a slot for it, or few of its accounts have none. A source
   * can name as many as it likes, and each that is kept stays.
   */
  hasPlaceFor(sourceId: number, isActive: boolean): boolean {
    const quota = this.quotaOf(sourceId)
    if (isActive && this.activeOf(sourceId) < quota) return true
    const known = this.#knownBySource.get(sourceId) ?? 0
    return known < Math.max(knownMax.min, quota * knownMax.perSlot)
  }

  /** Notes which source speaks for an account, and what it says of it. Throttles the account if it needs a slot and none is free. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void {
    if (account.sourceId === sourceId && account.upstreamStatus === upstreamStatus) return
    const freed = holdsSlot(account) ? account.sourceId : undefined
    this.#leave(account)
    account.sourceId = sourceId
    account.upstreamStatus = upstreamStatus
    const isOver = upstreamStatus === 'active' && this.activeOf(sourceId) >= this.quotaOf(sourceId)
    account.throttledAtMs = isOver ? this.#nowMs() : 0
    this.#enter(account)
    if (freed !== undefined && !(freed === sourceId && holdsSlot(account))) this.#slotFreed(freed)
  }

  /** Gives a throttled account a slot, whether one is free or not. */
  admit(account: Account): void {
    this.restore(account, 0)
  }

  /** Takes an account for throttled since then, or for not throttled, as the log has it: for folding the log at start. */
  restore(account: Account, throttledAtMs: number): void {
    this.#leave(account)
    account.throttledAtMs = throttledAtMs
    this.#enter(account)
  }

  /** Accounts of a source that hold a slot. */
  activeOf(sourceId: number): number {
    return this.#activeBySource.get(sourceId) ?? 0
  }

  /** How many accounts of a source are left out for want of a slot. */
  throttledCountOf(sourceId: number): number {
    return this.#throttledBySource.get(sourceId)?.size ?? 0
  }

  /** The accounts of a source that were left out for want of a slot, longest waiting first. */
  throttledOf(sourceId: number, limit: number): Account[] {
    return [...(this.#throttledBySource.get(sourceId)?.values().take(limit) ?? [])]
  }

  #enter(account: Account): void {
    const { sourceId } = account
    this.#countKnown(sourceId, 1)
    if (holdsSlot(account)) this.#activeBySource.set(sourceId, this.activeOf(sourceId) + 1)
    if (account.throttledAtMs === 0) return
    const throttled = this.#throttledBySource.get(sourceId) ?? new Set()
    this.#throttledBySource.set(sourceId, throttled.add(account))
  }

  #leave(account: Account): void {
    const { sourceId } = account
    this.#countKnown(sourceId, -1)
    if (holdsSlot(account)) this.#activeBySource.set(sourceId, this.activeOf(sourceId) - 1)
    this.#throttledBySource.get(sourceId)?.delete(account)
  }

  #countKnown(sourceId: number, change: number): void {
    if (sourceId !== 0) this.#knownBySource.set(sourceId, (this.#knownBySource.get(sourceId) ?? 0) + change)
  }
}

function holdsSlot({ sourceId, upstreamStatus, throttledAtMs }: Account): boolean {
  return sourceId !== 0 && upstreamStatus === 'active' && throttledAtMs === 0
}
