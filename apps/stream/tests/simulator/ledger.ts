/**
 * All that has become visible, held against what the relay sent and the host holds: of each account every row, once and in
 * its order, and no number twice, whatever stopped in between; and which of the rows may leave the archive.
 */
import { decode } from '@atcute/cbor'
import { isMaterialisingKind, rowKind, type Row } from '@tributary/segment'
import type { SignedCommit } from '@tributary/testkit'
import type { Archive, RecoveredRows } from '../../src/archive/archive.ts'
import { storedRows } from '../rows.ts'
import { AccountModel, foldInto, isOurSync, nameOf } from './account-model.ts'
import { watchedCollections } from './collections.ts'
import type { Entry } from './upstream.ts'

/** A row as readers see it. */
export interface Shown {
  seq: number
  row: Row
  atMs: number
  /** A later row says something else of its record. It leaves the archive. */
  isSuperseded: boolean
  /** It may leave the archive, because its account was taken down. */
  isTakenDown: boolean
}

/** How long rows may come of a collection that was removed: what was read for it is on its way, behind a disk that is stuck. */
const unwatchedMsMax = 120_000

export class Ledger {
  readonly broken: string[] = []
  /** What happened, in order. */
  readonly trace: string[] = []
  readonly rows: Shown[] = []
  /** Since when, and until when, accounts are or were hidden the last time. */
  readonly hidden = new Map<string, { fromMs: number; untilMs: number }>()
  /** Accounts that were ever taken down. */
  readonly takedowns = new Set<string>()
  readonly #accounts = new Map<string, AccountModel>()
  /** Rows of accounts that put records in place. */
  readonly #placed = new Map<string, Shown[]>()
  readonly #nowMs: () => number
  #witnessedAt = 0
  #watched: ReadonlySet<string> = new Set(watchedCollections)
  /** Since when collections that were added or removed are as they are. */
  readonly #changedMs = new Map<string, number>()

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  get lastSeq(): number {
    return this.rows.at(-1)?.seq ?? 0
  }

  onBroken(what: string): void {
    this.broken.push(what)
    this.note(`broken: ${what}`)
  }

  note(what: string): void {
    this.trace.push(`${this.#nowMs()} ${what}`)
  }

  account(did: string): AccountModel {
    let account = this.#accounts.get(did)
    if (!account) this.#accounts.set(did, (account = new AccountModel()))
    return account
  }

  /** What is watched from now on. */
  setWatched(names: ReadonlySet<string>): void {
    for (const collection of names.symmetricDifference(this.#watched)) {
      const isWatched = names.has(collection)
      this.note(`${collection} is ${isWatched ? '' : 'not '}watched`)
      this.#changedMs.set(collection, this.#nowMs())
      for (const account of this.#accounts.values()) account.changeWatched(collection, isWatched)
    }
    this.#watched = names
  }

  /** Nothing was shown yet. */
  get isNew(): boolean {
    return this.rows.length === 0
  }

  get watched(): ReadonlySet<string> {
    return this.#watched
  }

  /** What was watched from the start until now. */
  get watchedThroughout(): ReadonlySet<string> {
    return this.#watched.difference(this.#changedMs)
  }

  /** Operations on collections that are watched have to give rows, if the relay passes them on. */
  expectCommit(commit: SignedCommit, how: { isPassedOn: boolean; isHidden: boolean }): void {
    this.account(commit.did).expectCommit(commit, this.#watched, how)
  }

  expectMarker(entry: Entry): void {
    this.account(entry.did).expectMarker(entry)
  }

  /** A row that everybody can read from now on. */
  show(row: Row): void {
    const { seq, did, witnessedAt } = row
    if (seq <= this.lastSeq) this.onBroken(`seq ${seq} comes after ${this.lastSeq}`)
    if (witnessedAt < this.#witnessedAt) this.onBroken(`the time of ${seq} goes back`)
    this.#witnessedAt = Math.max(this.#witnessedAt, witnessedAt)
    const fault = this.account(did).take(row)
    if (fault !== undefined) this.onBroken(`row ${seq} of ${did} ${fault}`)
    const isOperation = row.kind <= rowKind.delete || row.kind === rowKind.createResync
    if (isOperation && !this.#watched.has(row.collection)) {
      const sinceMs = this.#changedMs.get(row.collection) ?? -Infinity
      if (this.#nowMs() - sinceMs > unwatchedMsMax)
        this.onBroken(`row ${seq} is of a collection that is not watched since ${sinceMs}`)
    }
    // Nobody would be shown it, and nothing would take it out of the archive.
    if (isMaterialisingKind(row.kind) && this.hidden.get(did)?.untilMs === Infinity)
      this.onBroken(`row ${seq} of ${did} holds a record of a hidden account`)
    const own = { ...row, payload: Uint8Array.from(row.payload) }
    const shown = { seq, row: own, atMs: this.#nowMs(), isSuperseded: false, isTakenDown: false }
    this.#supersede(shown)
    if (row.kind === rowKind.account) this.#hide(row)
    this.rows.push(shown)
  }

  /** What a start finds, against what was there before. */
  async started(archive: Archive, { pending }: RecoveredRows): Promise<void> {
    const found = new Map<number, Row>()
    const add = (row: Row): void => {
      if (found.has(row.seq)) this.onBroken(`row ${row.seq} is there twice after the start`)
      found.set(row.seq, row)
    }
    const { blockSeq } = archive
    for (const row of await storedRows(archive.segments)) if (row.seq <= blockSeq) add(row)
    for (const { row } of pending) add(row)
    for (const shown of this.rows) {
      const { seq, row } = shown
      const kept = found.get(seq)
      if (!kept && !mayBeGone(shown)) this.onBroken(`row ${seq} was shown, and is gone after the start`)
      else if (kept && nameOf(kept) !== nameOf(row))
        this.onBroken(`row ${seq} is another one after the start`)
    }
    // What was durable and was not shown before the end is shown from now on.
    const { lastSeq } = this
    for (const row of found.values()) if (row.seq > lastSeq) this.show(row)
  }

  /** What did not come yet. */
  missing(): string[] {
    return [...this.#accounts].flatMap(([did, account]) => {
      const name = account.missing()
      return name === undefined ? [] : [`of ${did} ${name} did not come`]
    })
  }

  /**
   * What is wrong with an archive that was compacted after its last row.
   * @param collections those of which it must have everything.
   */
  async compacted(
    archive: Archive,
    statusOf: (did: string) => string,
    collections: ReadonlySet<string>,
  ): Promise<string[]> {
    const rows = await storedRows(archive.segments)
    const found = new Set(rows.map(({ seq }) => seq))
    const faults: string[] = []
    for (const { seq, row, isSuperseded } of this.rows) {
      const isGoing = isMaterialisingKind(row.kind) && (isSuperseded || statusOf(row.did) === 'takendown')
      if (isGoing && found.has(seq)) faults.push(`row ${seq} of ${row.did} has not left the archive`)
    }
    for (const [did, account] of this.#accounts) {
      if (statusOf(did) !== 'active') continue
      const table = new Map<string, string>()
      for (const row of rows) if (row.did === did) foldInto(table, row)
      const difference = account.difference(collections, table)
      if (difference !== undefined) faults.push(`in the archive, of ${did} ${difference}`)
    }
    return faults
  }

  #supersede(shown: Shown): void {
    const { row } = shown
    const placed = this.#placed.get(row.did) ?? []
    this.#placed.set(row.did, placed)
    const isAll = isOurSync(row)
    if (isAll || row.kind === rowKind.update || row.kind === rowKind.delete)
      for (const each of placed) each.isSuperseded ||= isAll || isSameRecord(each.row, row)
    if (!isMaterialisingKind(row.kind)) return
    placed.push(shown)
    shown.isTakenDown = this.takedowns.has(row.did) && this.hidden.get(row.did)?.untilMs === Infinity
  }

  #hide({ did, payload }: Row): void {
    const { active, status } = decode(payload) as { active: boolean; status?: string } // a marker's payload is the event
    const nowMs = this.#nowMs()
    const before = this.hidden.get(did)
    const wasHidden = before?.untilMs === Infinity
    if (!active) {
      this.account(did).mayRefill = true
      this.account(did).mayBeginAnew()
      if (status === 'takendown') this.takedowns.add(did)
      if (this.takedowns.has(did)) for (const each of this.#placed.get(did) ?? []) each.isTakenDown = true
    }
    if (!active && !wasHidden) this.hidden.set(did, { fromMs: nowMs, untilMs: Infinity })
    else if (active && wasHidden) before.untilMs = nowMs
  }
}

/** Whether a row may have left the archive. */
export function mayBeGone({ isSuperseded, isTakenDown }: Shown): boolean {
  return isSuperseded || isTakenDown
}

function isSameRecord(a: Row, b: Row): boolean {
  return a.collection === b.collection && a.rkey === b.rkey
}
