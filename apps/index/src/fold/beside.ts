/**
 * Work that one author causes and that is about many rows: an account with 200,000 records goes or comes back, a badge with
 * as many awards is edited. Done where the event stands, it would hold up the events of all others for seconds, and its
 * author can cause it again and again. So it is noted, and done beside the events, a little at a time; see `work-beside.ts`.
 *
 * A note says whose rows are to be made again, never how: they are made from the records as they are then. So doing it twice,
 * late, or for nothing ends in the same rows, and the further events of an author that waits add next to nothing.
 */
import type { Batch, RowOf } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { Affected, type Noted } from './affected.ts'
import type { CutPoints } from './cuts.ts'

/** Contents of an author that are noted. Where there are more, all that rests on any content of the author is settled. */
const contentsMax = 10
/** The share of all rows that each author may have made again where its event stands, when others have used up the rest. */
const shareOfLast = 0.1

export type Remake = RowOf<'remakes'>

/** An addition to the work of an author. */
export interface BesideWish {
  /** All rows of the account are to be made again. */
  readonly isAccount?: boolean
  readonly affected?: Affected
}

type Contents = Pick<Noted, 'listed' | 'badges'>

/** Adds to the work of an author, within the transaction of the event that caused it. */
export async function putBeside(
  batch: Batch,
  { did, seq }: { did: Did; seq: number },
  { isAccount = false, affected = new Affected() }: BesideWish,
): Promise<void> {
  const [known] = await batch.load('remakes', [did])
  const version = (known?.version ?? 0n) + 1n
  const { definers, listers = [], ...added } = affected.noted
  const all = new Affected()
  if (known) all.add(noted(contentsOf(known)))
  all.add(noted(added))
  const { listed, badges } = all.noted
  const [isMuchListed, isMuchDefined] = [listed, badges].map(({ length }) => length > contentsMax)
  const contents: Contents = { listed: isMuchListed ? [] : listed, badges: isMuchDefined ? [] : badges }
  await batch.put('remakes', [
    {
      did,
      seq: BigInt(seq),
      place: known?.place ?? (await batch.queues.lastRemake()).place,
      version,
      accountVersion: isAccount ? version : (known?.accountVersion ?? 0n),
      isDefiner: isMuchDefined || definers.length > 0 ? 1n : (known?.isDefiner ?? 0n),
      isLister: isMuchListed || listers.length > 0 ? 1n : (known?.isLister ?? 0n),
      contents: JSON.stringify(contents),
      failures: 0n,
    },
  ])
}

function contentsOf({ contents }: Remake): Contents {
  return JSON.parse(contents) as Contents // as `putBeside` wrote it
}

function noted({ listed, badges }: Contents): Noted {
  return { activities: [], collections: [], awards: [], listed, badges, definers: [] }
}

/** The part of an author's work that is to be settled. */
export function affectedOf(remake: Remake): Affected {
  const { did, isDefiner, isLister } = remake
  const affected = new Affected()
  const [definers, listers] = [isDefiner, isLister].map((is) => (is === 1n ? [did] : []))
  affected.add({ ...noted(contentsOf(remake)), definers: definers ?? [], listers: listers ?? [] })
  return affected
}

/**
 * Leaves the work of an author. Additions since it was read, and work that was not done, wait behind those of others. The
 * rows of an account that did not change meanwhile are not made once more.
 */
export async function leaveBeside(
  batch: Batch,
  { did, version, accountVersion }: Remake,
  became: 'done' | 'outdated' | 'failed',
): Promise<void> {
  const [now] = await batch.load('remakes', [did])
  if (now === undefined) return
  if (became === 'done' && now.version === version) return batch.remove('remakes', [did])
  const isAccountDone = became === 'done' && now.accountVersion === accountVersion
  const { place } = await batch.queues.lastRemake()
  await batch.put('remakes', [
    {
      ...now,
      place,
      accountVersion: isAccountDone ? 0n : now.accountVersion,
      failures: now.failures + (became === 'failed' ? 1n : 0n),
    },
  ])
}

/** Thrown at a cut within work that turns out to be about many rows. */
class TooMuchError extends Error {}

/** Decides which work is done where its event stands, and notes the rest to be done beside the events. */
export class Beside {
  readonly #batch: Batch
  readonly #rowsMax: number
  readonly #onPut: () => void
  readonly #seqNow: () => number
  #rowsLeft: number

  /**
   * @param rowsMax rows that may be made again where events stand, for all of them together; each author may have a tenth
   *   of it in any case
   * @param onPut told that something is noted
   */
  constructor(batch: Batch, rowsMax: number, onPut: () => void, seqNow: () => number) {
    this.#batch = batch
    this.#rowsMax = rowsMax
    this.#rowsLeft = rowsMax
    this.#onPut = onPut
    this.#seqNow = seqNow
  }

  /**
   * Does work if it is about few rows.
   * @param work that may stop at any cut: what it has written by then is true, and not all.
   * @returns whether it was done.
   */
  async isDone(work: (cuts: CutPoints) => Promise<void>): Promise<boolean> {
    const rowsBefore = this.#batch.rows
    const rowsMax = Math.max(this.#rowsLeft, this.#rowsMax * shareOfLast)
    const cut = async (): Promise<boolean> => {
      if (this.#batch.rows - rowsBefore > rowsMax) throw new TooMuchError()
      return false
    }
    try {
      await work({ change: undefined, listings: new Set(), cut })
      return true
    } catch (error) {
      if (!(error instanceof TooMuchError)) throw error
      return false
    } finally {
      this.#rowsLeft -= this.#batch.rows - rowsBefore
    }
  }

  async put(did: Did, wish: BesideWish): Promise<void> {
    this.#onPut()
    await putBeside(this.#batch, { did, seq: this.#seqNow() }, wish)
  }
}
