/**
 * Cuts the work of an event that touches many rows into transactions, so that other writers need not wait for all of it.
 *
 * Always holds: the transaction that begins such work has the cursor after the event, and a note of what is left. Doing
 * the noted work again from its beginning ends in the same rows, so a kill costs time and nothing else.
 */
import type { Batch } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Affected, Noted } from './affected.ts'
import type { AccountChange } from './apply-event.ts'
import { Beside } from './beside.ts'

/** The note, in the table of policies. */
const noteName = 'unfinished'

/** Whose work it is: that of an event, or of what a host said. */
export interface Cause {
  readonly seq: number
  readonly did: Did
}

/** Work that is left: changes of accounts, the first from its beginning, and what is to be settled. */
export interface Unfinished {
  readonly cause: Cause
  readonly change?: AccountChange
  /** Not there in notes of earlier versions. */
  readonly waiting?: readonly AccountChange[]
  /** Collection records whose items are to be those that the records list. Not there in notes of earlier versions. */
  readonly listings?: readonly string[]
  readonly affected: Noted
}

/** Where work that touches many rows may be interrupted. All that has changed in memory must have been written by then. */
export interface CutPoints {
  /** The change that is being made; undefined outside of one. */
  change: AccountChange | undefined
  /** Collection records whose items are being replaced. */
  readonly listings: Set<string>
  /** Where work is noted that is about many rows. Undefined: it is done where its event stands. */
  readonly beside?: Beside | undefined
  /** @returns true if records may have changed meanwhile. */
  cut(): Promise<boolean>
}

export interface CutOptions {
  readonly affected: Affected
  /** Rows that may be made again where events stand, and who is told when more are noted. Default: any number. */
  readonly beside?: { readonly rowsMax: number; readonly onPut: () => void }
  /** Rows that statements are about before a transaction is cut. */
  readonly rowsMax: number
  /** Moves the cursor after the event whose work is being done. */
  readonly advance?: (cause: Cause) => Promise<void>
}

export class Cuts implements CutPoints {
  cause: Cause
  change: AccountChange | undefined
  /** Changes that are to be made after that, by account. */
  readonly waiting = new Map<Did, AccountChange>()
  readonly listings = new Set<string>()
  readonly beside: Beside | undefined
  readonly #batch: Batch
  readonly #options: CutOptions
  #rowsBefore: number
  #isNoted = false

  constructor(batch: Batch, cause: Cause, options: CutOptions) {
    this.cause = cause
    this.#batch = batch
    this.#options = options
    this.#rowsBefore = batch.rows
    const { beside } = options
    if (beside) this.beside = new Beside(batch, beside.rowsMax, beside.onPut, () => this.cause.seq)
  }

  /** Ends the transaction if it is large. Records change by the fold alone, which this work is a part of. */
  async cut(): Promise<boolean> {
    const { affected, rowsMax, advance } = this.#options
    const { cause, change } = this
    if (this.#batch.rows - this.#rowsBefore < rowsMax) return false
    await advance?.(cause)
    const waiting = [...this.waiting.values()]
    const listings = [...this.listings]
    const left: Unfinished = { cause, ...(change && { change }), waiting, listings, affected: affected.noted }
    await this.#batch.put('policies', [{ name: noteName, value: JSON.stringify(left, withoutBigints) }])
    await this.#batch.split()
    this.#isNoted = true
    this.#rowsBefore = this.#batch.rows
    return false
  }

  /** Nothing is left to do. */
  async end(): Promise<void> {
    if (this.#isNoted) await noteFinished(this.#batch)
  }
}

/** The work that an earlier transaction has left; undefined when it left none. */
export async function unfinishedIn(batch: Batch): Promise<Unfinished | undefined> {
  const [row] = await batch.load('policies', [noteName])
  return row && (JSON.parse(row.value, withBigints) as Unfinished) // as `cut` wrote it
}

export function noteFinished(batch: Batch): Promise<void> {
  return batch.remove('policies', [noteName])
}

function withoutBigints(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function withBigints(name: string, value: unknown): unknown {
  return name === 'at' ? BigInt(String(value)) : value
}
