import type { Did } from '@tributary/protocol'
import type { Clock } from '../clock.ts'
import type { Source } from '../sources/source.ts'
import type { Account } from '../state/account.ts'
import type { AccountTable } from '../state/account-table.ts'

export interface LossWalksOptions {
  accounts: Pick<AccountTable, 'firstWholeOf' | 'ordered'>
  clock: Clock
  sources: () => Iterable<Source>
  /** The source that brings the answers for the accounts of a source. Undefined when none does now. */
  bringerOf: (source: Source) => Source | undefined
  /** Asks an account's host for its current commit. @returns false when there is no room for the question yet. */
  ask: (account: Account, bringer: Source) => boolean
  /** Whether an account that was asked for still waits for the answer. One that does not is whole, or bears a mark. */
  isWaiting: (did: Did) => boolean
  /** The accounts of a source before a DID were looked after since a loss, so that a later process goes on there. */
  onFar: (source: Source, lostAtMs: number, fromDid: string) => void
  /** All accounts of a source were looked after since it lost events. */
  onOver: (source: Source) => void
}

/** From one question for a source to the next. The accounts of a relay are those of many hosts. */
const askEveryMs = { pds: 1000, relay: 250 }
/** From one walk for a source to the next, at least: a source may say at any time that it has lost events. */
const walkEveryMs = 3_600_000
/** A source whose events are older when they come sends what it has kept. */
const lagMsMax = 60_000
/** A source has been read again for so long after a loss: then its lag shows whether it sends what it has kept. */
const readMsMin = 5000
/** Rows of accounts that are looked at in one go. */
const rowsMax = 10_000
/** Questions after which it is noted how far a walk has come. */
const notedEvery = 60

/** A way through all accounts for one source. */
interface Walk {
  source: Source
  beganAtMs: number
  /** The loss that it makes up for, as the source notes it. A clock that was ahead may have told when. */
  lostAtMs: number
  /** Accounts with a DID before this were looked after before the process began. */
  fromDid: string
  /** The row of accounts at which it goes on. Undefined after the last one. */
  next: number | undefined
  /** It goes through the accounts that are in DID order, after all others. */
  isOrdered: boolean
  dueMs: number
  /** Accounts that were asked for, and of which the host may not have answered. True for those in DID order. */
  asked: Map<Did, boolean>
  askedCount: number
}

/**
 * Asks for the current commit of every account of a source whose events were lost. What was lost of an account may have
 * been its last events, also that it is not active any more, and nothing else would tell of them. Accounts that are not
 * active or not whole are looked after by `AccountSweep`.
 *
 * A walk begins when the source has sent what it still had, because a commit that a host gives takes the place of older
 * ones that are on their way. It is over when all questions have been answered, or given up: accounts that wait bear no
 * mark. A walk that a stop has ended goes on from what was noted of it. That is a DID, because rows are others after a start:
 * so the accounts that are in no order come first, and then those in DID order.
 */
export class LossWalks {
  readonly #options: LossWalksOptions
  /** By source, with the one first whose turn is next. */
  readonly #walks = new Map<number, Walk>()

  constructor(options: LossWalksOptions) {
    this.#options = options
  }

  /** The clock was set back. */
  setBack(ms: number): void {
    for (const walk of this.#walks.values()) {
      walk.beganAtMs -= ms
      walk.dueMs -= ms
    }
  }

  /** Looks at the next accounts, and asks for one of each source at most. */
  step(): void {
    const nowMs = this.#options.clock.nowMs()
    for (const source of this.#options.sources()) if (source.lostAtMs > 0) this.#begin(source, nowMs)
    let rows = rowsMax
    // A walk that had its turn is not due when it comes again, or has used up the rows.
    for (const [id, walk] of this.#walks) {
      if (rows <= 0) return
      if (walk.next === undefined) this.#end(walk)
      if (walk.next === undefined || walk.dueMs > nowMs) continue
      const bringer = this.#options.bringerOf(walk.source)
      if (!bringer) continue
      this.#walks.delete(id)
      this.#walks.set(id, walk)
      rows -= this.#goOn(walk, bringer, { from: walk.next, rows, nowMs })
    }
  }

  #begin(source: Source, nowMs: number): void {
    const bringer = this.#options.bringerOf(source)
    if (!bringer) return
    const { lostAtMs } = source
    const { lastConnectedAtMs, reading } = bringer
    const last = this.#walks.get(source.id)
    // It goes on until it has looked after what was lost before it began.
    const isOver = last?.next === undefined && lostAtMs !== last?.lostAtMs
    const readMs = nowMs - Math.max(lostAtMs, lastConnectedAtMs)
    // Below 0 the clock was set back since.
    if (readMs >= 0 && readMs < readMsMin) return
    const isTurn = !last || (isOver && nowMs - last.beganAtMs >= walkEveryMs)
    if (isTurn && reading.isOpen && reading.lagMs < lagMsMax)
      this.#walks.set(source.id, {
        source,
        beganAtMs: nowMs,
        lostAtMs,
        fromDid: source.walkFrom(lostAtMs),
        next: this.#options.accounts.ordered,
        isOrdered: false,
        dueMs: nowMs,
        asked: new Map(),
        askedCount: 0,
      })
  }

  /** @returns how many rows were looked at. */
  #goOn(
    walk: Walk,
    bringer: Source,
    { from, rows, nowMs }: { from: number; rows: number; nowMs: number },
  ): number {
    const { accounts, ask } = this.#options
    const { source, isOrdered, fromDid } = walk
    const { ordered } = accounts
    const count = isOrdered ? Math.min(rows, ordered - from) : rows
    const { account, next = Infinity } = accounts.firstWholeOf(source.id, from, count, fromDid)
    if (account) walk.dueMs = nowMs + askEveryMs[source.policy.kind]
    const isAsked = account !== undefined && ask(account, bringer)
    if (isAsked) walk.asked.set(account.did, isOrdered)
    if (!account || isAsked) walk.next = next
    if ((walk.next ?? 0) >= (isOrdered ? ordered : Infinity)) {
      walk.next = !isOrdered && ordered > 0 ? 0 : undefined
      walk.isOrdered = true
    }
    this.#hear(walk)
    if (isAsked && ++walk.askedCount % notedEvery === 0) this.#note(walk, [account.did, isOrdered])
    return account ? account.row + 1 - from : rows
  }

  /** Notes how far the walk has come: no account that waits was looked after. @param last the account that was asked for last. */
  #note({ source, lostAtMs, asked }: Walk, last: [did: Did, isOrdered: boolean]): void {
    const [[fromDid, isOrdered] = last] = asked
    if (isOrdered) this.#options.onFar(source, lostAtMs, fromDid)
  }

  /** The walk has passed the last account. */
  #end(walk: Walk): void {
    const { source, lostAtMs } = walk
    // It may have lost more since.
    if (source.lostAtMs === 0 || source.lostAtMs !== lostAtMs) return
    this.#hear(walk)
    if (walk.asked.size === 0) this.#options.onOver(source)
  }

  /** Forgets the accounts that wait no more. */
  #hear({ asked }: Walk): void {
    for (const did of asked.keys()) if (!this.#options.isWaiting(did)) asked.delete(did)
  }
}
