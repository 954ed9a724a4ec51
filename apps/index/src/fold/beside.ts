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
  /** All rows of the account are to be made again, and first of all those that are shown removed if it is hidden. */
  readonly change?: 'hide' | 'show'
  readonly affected?: Affected
}

type Contents = Pick<Noted, 'listed' | 'badges'>

/** Adds to the work of an author, within the transaction of the event that caused it. */
export async function putBeside(
  batch: Batch,
  { did, seq }: { did: Did; seq: number },
  { change, affected = new Affected() }: BesideWish,
): Promise<void> {
  const [known] = await batch.load('remakes', [did])
  const version = (known?.version ?? 0n) + 1n
  await batch.put('remakes', [
    {
      did,
      seq: BigInt(seq),
      place: known?.place ?? (await batch.queues.lastRemakePlace()),
      version,
      accountVersion: change ? version : (known?.accountVersion ?? 0n),
      isHiding: change ? (change === 'hide' ? 1n : 0n) : (known?.isHiding ?? 0n),
      ...restingOf(known, affected),
      failures: 0n,
    },
  ])
}

type Resting = Pick<Remake, 'isDefiner' | 'isLister' | 'contents'>

/** The notes of what rests on an author's records and is to be settled, with an addition. */
function restingOf(
  known: Remake | undefined,
  { noted: { definers, listers = [], ...added } }: Affected,
): Resting {
  const all = new Affected()
  if (known) all.add(noted(contentsOf(known)))
  all.add(noted(added))
  const { listed, badges } = all.noted
  const isDefiner = known?.isDefiner === 1n || badges.length > contentsMax || definers.length > 0
  const isLister = known?.isLister === 1n || listed.length > contentsMax || listers.length > 0
  const contents: Contents = { listed: isLister ? [] : listed, badges: isDefiner ? [] : badges }
  return {
    isDefiner: isDefiner ? 1n : 0n,
    isLister: isLister ? 1n : 0n,
    contents: JSON.stringify(contents),
  }
}

/** Whether it is noted already that this is to be settled. */
function isIncluded(affected: Affected, known: Remake): boolean {
  const { isDefiner, isLister, contents } = restingOf(known, affected)
  return isDefiner === known.isDefiner && isLister === known.isLister && contents === known.contents
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
 * rows of an account that did not change meanwhile are not made once more. `hidden`: what was shown of an account is removed,
 * and the rest of its work keeps its place.
 */
export async function leaveBeside(
  batch: Batch,
  { did, version, accountVersion }: Remake,
  became: 'done' | 'hidden' | 'outdated' | 'failed',
): Promise<void> {
  const [now] = await batch.load('remakes', [did])
  if (now === undefined) return
  if (became === 'done' && now.version === version) return batch.remove('remakes', [did])
  const isSame = now.accountVersion === accountVersion
  if (became === 'hidden' && isSame) return batch.put('remakes', [{ ...now, isHiding: 0n }])
  await batch.put('remakes', [
    {
      ...now,
      place: await batch.queues.lastRemakePlace(),
      accountVersion: became === 'done' && isSame ? 0n : now.accountVersion,
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
   * @param rowsMax rows that may be made again where events stand, for all of them together. Authors who come after these
   *   have a tenth of it each, until they have had as many together.
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
    if (this.#rowsLeft <= -this.#rowsMax) return false
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

  /** Whether all rows of an account are to be made again beside the events anyway. */
  async isNoted(did: Did): Promise<boolean> {
    const [known] = await this.#batch.load('remakes', [did], ['accountVersion'])
    return known !== undefined && known.accountVersion > 0n
  }

  /** Adds to the work of authors what it includes already, because it may be under way. @returns what is left */
  async notNoted(affected: Affected): Promise<Affected> {
    const byAuthor = affected.byAuthor()
    const rows = await this.#batch.load('remakes', [...byAuthor.keys()])
    const known = new Map(rows.map((row) => [row.did, row]))
    const left = new Affected()
    for (const [did, some] of byAuthor) {
      const row = known.get(did)
      if (row && isIncluded(some, row)) await this.put(did, { affected: some })
      else left.add(some.noted)
    }
    return left
  }

  async put(did: Did, wish: BesideWish): Promise<void> {
    this.#onPut()
    await putBeside(this.#batch, { did, seq: this.#seqNow() }, wish)
  }
}
