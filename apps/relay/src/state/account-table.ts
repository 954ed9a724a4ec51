/**
 * All accounts that any source has spoken for, and who of them holds one of their source's slots.
 * An account holds a slot while its host says it is active. One that becomes active when none is free is throttled:
 * known, but left out until `admit`. An account that has departed neither holds a slot nor waits for one.
 */
import type { Did } from '@tributary/protocol'
import { commonRowBytes, type PackedAccounts, type SqlValue } from './account-row.ts'
import { AccountRows } from './account-rows.ts'
import { isHidden, type Account } from './account.ts'

/** Accounts of a source that are known without holding a slot: so many times its slots, and so many at least. */
const knownMax = { perSlot: 10, min: 100 }
/** Accounts as the database has them. */
export interface StoredAccounts {
  /** Rows that hold nothing rare, many at a time. @see commonRowSql */
  common: Iterable<Buffer>
  /** Values of all others, in the order of `columns`. */
  others: Iterable<readonly SqlValue[]>
}

/** The accounts of a source. */
interface SourceAccounts {
  known: number
  /** Accounts that hold a slot. */
  active: number
  /** Rows of those that were left out for want of a slot, longest waiting first. */
  throttled: Set<number>
}

/** Accounts that are looked at in one go. */
const hiddenStep = 10_000

export class AccountTable {
  readonly #rows = new AccountRows()
  #known = 0
  readonly #bySource = new Map<number, SourceAccounts>()
  readonly #nowMs: () => number
  #slotFreed: (sourceId: number) => void = () => {}
  /** Slots of a source. */
  quotaOf: (sourceId: number) => number = () => Infinity

  /** @param stored accounts that are known from the start. */
  constructor(stored: StoredAccounts = { common: [], others: [] }, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs
    for (const rows of stored.common)
      for (let from = 0; from < rows.length; from += commonRowBytes)
        this.#enter(this.#rows.addCommon(rows, from))
    const others = Array.from(stored.others, (values) => this.#rows.addStored(values))
    // Throttled accounts enter in the order in which they came to wait.
    for (const account of others.toSorted((a, b) => a.throttledAtMs - b.throttledAtMs)) this.#enter(account)
  }

  get size(): number {
    return this.#rows.size
  }

  /** Accounts that a source has spoken for. */
  get known(): number {
    return this.#known
  }

  get(did: string): Account | undefined {
    return this.#rows.get(did)
  }

  /** The account, known from now on if it was not. It belongs to no source until one has spoken for it. */
  take(did: Did): Account {
    return this.#rows.get(did) ?? this.#rows.add(did)
  }

  /** Accounts that no source has spoken for. */
  get strangers(): Iterable<Account> {
    return this.#rows.strangers
  }

  /** Forgets an account that belongs to no source. */
  forget(account: Account): void {
    if (account.sourceId === 0) this.#rows.forget(account)
  }

  /**
   * The accounts that are not just active and whole, among the next few that are known.
   * @param from 0, or the `next` of the call before.
   * @param count how many accounts to look at.
   * @returns next: undefined after the last account.
   */
  exceptional(from: number, count: number): { found: Account[]; next: number | undefined } {
    const next = from + count
    return { found: this.#rows.exceptional(from, count), next: next < this.#rows.end ? next : undefined }
  }

  /** The first so many rows are in DID order. */
  get ordered(): number {
    return this.#rows.ordered
  }

  /**
   * The first account of a source, among the next few accounts, that is just active and whole.
   * @param from, count as for `exceptional`.
   * @param fromDid leaves out accounts whose DIDs come before it.
   * @returns next: undefined after the last account.
   */
  firstWholeOf(
    sourceId: number,
    from: number,
    count: number,
    fromDid = '',
  ): { account: Account | undefined; next: number | undefined } {
    const account = this.#rows.firstWholeOf(sourceId, from, count, fromDid)
    const next = account === undefined ? from + count : account.row + 1
    return { account, next: next < this.#rows.end ? next : undefined }
  }

  /** Accounts whose content no reader gets. */
  *hidden(): Generator<Account> {
    for (let at: number | undefined = 0; at !== undefined;) {
      const { found, next } = this.exceptional(at, hiddenStep)
      yield* found.filter(isHidden)
      at = next
    }
  }

  /** Copies accounts as they are now. Those that were forgotten are left out. @param rows of the accounts. */
  pack(rows: ReadonlySet<number>): PackedAccounts {
    return this.#rows.pack(rows, rows.size)
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
    const known = this.#bySource.get(sourceId)?.known ?? 0
    return known < Math.max(knownMax.min, quota * knownMax.perSlot)
  }

  /** Notes which source speaks for an account, and what it says of it. Throttles the account if it needs a slot and none is free. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void {
    const isSame = account.sourceId === sourceId && account.upstreamStatus === upstreamStatus
    if (isSame && !account.hasDeparted) return
    const freed = holdsSlot(account) ? account.sourceId : undefined
    this.#leave(account)
    account.sourceId = sourceId
    account.namedBy = undefined
    account.hasDeparted = false
    this.#rows.settle(account)
    account.upstreamStatus = upstreamStatus
    const isOver = upstreamStatus === 'active' && this.activeOf(sourceId) >= this.quotaOf(sourceId)
    account.throttledAtMs = isOver ? this.#nowMs() : 0
    this.#enter(account)
    if (freed !== undefined && !(freed === sourceId && holdsSlot(account))) this.#slotFreed(freed)
  }

  /**
   * Notes that an account is not at its source any more, though nobody may say so who is read here. It gives its slot back,
   * or waits for none any more, until `assign`.
   * @returns whether that changes something.
   */
  depart(account: Account): boolean {
    const { sourceId, upstreamStatus, hasDeparted } = account
    if (sourceId === 0 || upstreamStatus !== 'active' || hasDeparted) return false
    const isFreed = holdsSlot(account)
    this.#leave(account)
    account.hasDeparted = true
    this.#enter(account)
    if (isFreed) this.#slotFreed(sourceId)
    return true
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
    return this.#bySource.get(sourceId)?.active ?? 0
  }

  /** How many accounts of a source are left out for want of a slot. */
  throttledCountOf(sourceId: number): number {
    return this.#bySource.get(sourceId)?.throttled.size ?? 0
  }

  /** The accounts of a source that were left out for want of a slot, longest waiting first. */
  throttledOf(sourceId: number, limit: number): Account[] {
    const rows = this.#bySource.get(sourceId)?.throttled.values().take(limit) ?? []
    return Array.from(rows, (row) => this.#rows.at(row))
  }

  #enter(account: Account): void {
    const { sourceId } = account
    if (sourceId === 0) return
    let accounts = this.#bySource.get(sourceId)
    if (!accounts) this.#bySource.set(sourceId, (accounts = { known: 0, active: 0, throttled: new Set() }))
    this.#known++
    accounts.known++
    if (holdsSlot(account)) accounts.active++
    if (account.throttledAtMs !== 0 && !account.hasDeparted) accounts.throttled.add(account.row)
  }

  #leave(account: Account): void {
    const accounts = this.#bySource.get(account.sourceId)
    if (!accounts) return
    this.#known--
    accounts.known--
    if (holdsSlot(account)) accounts.active--
    accounts.throttled.delete(account.row)
  }
}

function holdsSlot({ sourceId, upstreamStatus, throttledAtMs, hasDeparted }: Account): boolean {
  return sourceId !== 0 && upstreamStatus === 'active' && throttledAtMs === 0 && !hasDeparted
}
