/**
 * All known accounts in packed rows, 150 bytes each: objects would take six times as much.
 *
 * An `Account` that is handed out is a handle of its row. It holds nothing of its own, so all handles of one account
 * say the same at any time, and nobody has to give one back. Only an account that belongs to no source can be
 * forgotten, and its row be given to another account; so such an account has one handle for all who ask, and forgetting
 * it cuts this handle off its row.
 */
import type { Did } from '@tributary/protocol'
import { AccountRow, rowBytes, type PackedAccounts, type RareValues, type SqlValue } from './account-row.ts'
import type { Account } from './account.ts'
import { DidIndex } from './did-index.ts'

/** Memory is taken for so many rows at a time: half a megabyte. */
const pageRows = 4096

export class AccountRows {
  readonly #pages: Buffer[] = []
  readonly #rare = new Map<number, RareValues>()
  readonly #index = new DidIndex((row, did) => this.#at(row).is(did))
  /** Handles of accounts that belong to no source. */
  readonly #strangers = new Map<number, AccountRow>()
  /** Rows below `#end` that are nobody's. */
  readonly #free: number[] = []
  #end = 0
  #ordered = 0

  get size(): number {
    return this.#end - this.#free.length
  }

  get(did: string): AccountRow | undefined {
    const row = this.#index.find(did)
    return row < 0 ? undefined : this.at(row, did as Did) // the index found it
  }

  /** Adds an account that is not known yet. */
  add(did: Did): AccountRow {
    const account = this.#newRow()
    account.did = did
    this.#index.add(did, account.row)
    this.#strangers.set(account.row, account)
    return account
  }

  /** Adds an account that is not known yet, with the values of its columns in the database. */
  addStored(values: readonly SqlValue[]): AccountRow {
    const account = this.#newRow()
    account.values = values
    this.#index.add(account.did, account.row)
    if (account.sourceId === 0) this.#strangers.set(account.row, account)
    return account
  }

  /** The first so many rows are in DID order for as long as the process runs, because no account of a source is forgotten. */
  get ordered(): number {
    return this.#ordered
  }

  /** Adds the next account in DID order, before all others, of a common row of the database. @see commonRowSql */
  addCommon(rows: Buffer, from: number): AccountRow {
    const account = this.#newRow()
    account.setCommon(rows, from)
    this.#index.add(account.did, account.row)
    this.#ordered = this.#end
    return account
  }

  /** Accounts that belong to no source. */
  get strangers(): Iterable<Account> {
    return this.#strangers.values()
  }

  /** Notes that an account belongs to a source from now on. */
  settle(account: Account): void {
    this.#strangers.delete(account.row)
  }

  /** Forgets an account that belongs to no source. */
  forget({ did, row }: Account): void {
    const account = this.#strangers.get(row)
    if (account?.did !== did) return
    this.#index.delete(did)
    this.#strangers.delete(row)
    account.detach()
    this.#free.push(row)
  }

  /** The accounts of a stretch of rows that are not just active and whole. */
  exceptional(from: number, count: number): AccountRow[] {
    const found: AccountRow[] = []
    const end = Math.min(from + count, this.#end)
    for (let row = from; row < end; row++)
      if (AccountRow.isExceptional(this.#page(row), startOf(row))) found.push(this.at(row))
    return found
  }

  /** The first account of a source in a stretch of rows that is just active and whole. @param fromDid leaves out DIDs before it. */
  firstWholeOf(sourceId: number, from: number, count: number, fromDid: string): AccountRow | undefined {
    const end = Math.min(from + count, this.#end)
    for (let row = from; row < end; row++)
      if (AccountRow.isWholeOf(sourceId, this.#page(row), startOf(row))) {
        const account = this.at(row)
        if (account.did >= fromDid) return account
      }
    return undefined
  }

  /** Rows there are, those of nobody included. */
  get end(): number {
    return this.#end
  }

  /** Copies rows as they are now. Those that are nobody's by now are left out. */
  pack(rows: Iterable<number>, count: number): PackedAccounts {
    const bytes = Buffer.allocUnsafeSlow(count * rowBytes)
    const rare = new Map<number, RareValues>()
    let packed = 0
    for (const row of rows) {
      const account = this.#at(row)
      if (account.isUsed) account.copyTo(bytes, packed * rowBytes, rare, packed++)
    }
    return { bytes: bytes.subarray(0, packed * rowBytes), rare }
  }

  /** A row for an account, which is not in the index yet. */
  #newRow(): AccountRow {
    const row = this.#free.pop() ?? this.#end++
    if (startOf(row) === 0 && !this.#pages[row / pageRows])
      this.#pages.push(Buffer.alloc(pageRows * rowBytes))
    const account = this.#at(row)
    account.isUsed = true
    return account
  }

  /** The account of a row that is somebody's. @param did where it is known. */
  at(row: number, did?: Did): AccountRow {
    return this.#strangers.get(row) ?? this.#at(row, did)
  }

  #at(row: number, did?: Did): AccountRow {
    return new AccountRow(this.#page(row), startOf(row), this.#rare, row, did)
  }

  #page(row: number): Buffer {
    const page = this.#pages[Math.floor(row / pageRows)]
    if (!page) throw new Error('invariant broken: a row of an account lies on a page')
    return page
  }
}

function startOf(row: number): number {
  return (row % pageRows) * rowBytes
}
