import { type Batch, IndexStorageError, type IndexWriter } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { changeAccount } from './account-changes.ts'
import { affectedOf, leaveBeside, type Remake } from './beside.ts'
import type { CutPoints } from './cuts.ts'
import type { FeedPolicy } from './feed-rows.ts'
import { IndexRows } from './index-rows.ts'
import { settleAll } from './settle.ts'

export interface WorkBesideOptions {
  readonly writer: IndexWriter
  readonly policy: FeedPolicy
  /** Rows that statements are about before others have their turn. */
  readonly rowsMax: number
  /** What may be noted before it is settled. */
  readonly noted: number
  /** Lets those who fold events have their turn. The work goes on when it resolves. */
  readonly giveWay: () => Promise<void>
  /** Told how many authors have work, those included whose work has failed several times. */
  readonly onAuthors: (count: number) => void
  readonly turns: BesideTurns
  /** Does nothing but remove what is shown of accounts that are hidden. */
  readonly of: 'all' | 'hidden'
  /** Leaves as it is what is under way. */
  readonly signal: AbortSignal
  readonly onFailed: (remake: Remake, error: unknown) => void
}

/** The counts that go on from the work of one author to that of the next. */
export class BesideTurns {
  /** Authors whose work is under way: at most one, and one that is hidden meanwhile. One whose account changes is taken out. */
  readonly underWay = new Set<Did>()
  /** Rows that others may have made again before shown rows of the next account are removed. */
  rowsOwed = 0
}

/** Thrown at a cut within work that does not go on. */
class EndedError extends Error {}

/**
 * Does the work of one author: that of the one who has waited longest. What is shown of accounts that are hidden is removed
 * before that, also while the work of another author is under way. After it others have as many rows made again, because
 * accounts can go and come all the time. Work is noted until it is done, and begins again after a kill. An account that
 * changes meanwhile waits behind the others: whoever comes and goes all the time holds up nobody else's.
 * @returns how many authors had work; 0 also when all that is left has failed several times.
 */
export async function workBeside(options: WorkBesideOptions): Promise<number> {
  const { onAuthors, turns, of } = options
  const isHidingFirst = turns.rowsOwed === 0 || of === 'hidden'
  let authors = 0
  const isFound = await isWorkDone(options, async ({ queues }) => {
    authors = await queues.remakes()
    onAuthors(authors)
    const next = await queues.nextRemake(isHidingFirst)
    return next ?? (of === 'all' ? queues.nextRemake(!isHidingFirst) : undefined)
  })
  return isFound ? authors : 0
}

/** Does the work of the author that is chosen. @returns false when there is none. */
async function isWorkDone(
  options: WorkBesideOptions,
  choose: (batch: Batch) => Promise<Remake | undefined>,
): Promise<boolean> {
  const { writer, turns, signal, onFailed } = options
  let chosen: Remake | undefined
  try {
    await writer.write(async (batch) => {
      const remake = await choose(batch)
      if (remake === undefined) return
      chosen = remake
      turns.underWay.add(remake.did)
      const became = await madeAgain(batch, remake, options)
      if (became !== 'outdated' || !signal.aborted) await leaveBeside(batch, remake, became)
    })
  } catch (error) {
    if (error instanceof IndexStorageError || chosen === undefined) throw error
    const failed = chosen
    onFailed(failed, error)
    await writer.write((batch) => leaveBeside(batch, failed, 'failed'))
  } finally {
    if (chosen) turns.underWay.delete(chosen.did)
  }
  return chosen !== undefined
}

/** `outdated` when it ended before it was done. */
async function madeAgain(
  batch: Batch,
  remake: Remake,
  options: WorkBesideOptions,
): Promise<'done' | 'hidden' | 'outdated'> {
  const { policy, noted } = options
  const { did, accountVersion } = remake
  const slices = new Slices(batch, remake, options)
  const rows = new IndexRows(undefined, noted)
  try {
    const [account] = await batch.load('accounts', [did], ['hidden'])
    const change = account?.hidden === 0n ? 'show' : 'hide'
    if (remake.isHiding === 1n) {
      if (change === 'hide') for await (const _ of batch.accounts.removeShown(did)) await slices.cut()
      return 'hidden'
    }
    if (accountVersion > 0n) await changeAccount(batch, rows, { change, did }, policy, slices)
    rows.affected.add(affectedOf(remake).noted)
    await settleAll(batch, rows.affected, slices)
    return 'done'
  } catch (error) {
    if (!(error instanceof EndedError)) throw error
    return 'outdated'
  } finally {
    slices.count()
  }
}

/** Gives way after some rows, and ends what does not go on. */
class Slices implements CutPoints {
  change = undefined
  readonly listings = new Set<string>()
  readonly #batch: Batch
  readonly #remake: Remake
  readonly #options: WorkBesideOptions
  #rowsBefore: number

  constructor(batch: Batch, remake: Remake, options: WorkBesideOptions) {
    this.#batch = batch
    this.#remake = remake
    this.#options = options
    this.#rowsBefore = batch.rows
    if (this.#isHiding) options.turns.rowsOwed = 0
  }

  get #isHiding(): boolean {
    return this.#remake.isHiding === 1n
  }

  /** Counts the rows since the last time for those who are to have them. */
  count(): void {
    const { turns } = this.#options
    const rows = this.#batch.rows - this.#rowsBefore
    this.#rowsBefore = this.#batch.rows
    turns.rowsOwed = this.#isHiding ? turns.rowsOwed + rows : Math.max(0, turns.rowsOwed - rows)
  }

  async cut(): Promise<boolean> {
    const { rowsMax, giveWay, turns, signal } = this.#options
    if (this.#batch.rows - this.#rowsBefore < rowsMax) return false
    this.count()
    let fault: { readonly error: unknown } | undefined
    await this.#batch.split(async () => {
      await giveWay()
      if (!this.#isHiding) fault = await this.#hideFirst()
    })
    if (fault) throw fault.error
    if (!turns.underWay.has(this.#remake.did) || signal.aborted) throw new EndedError()
    return true
  }

  /** Removes what is shown of an account that is hidden. No transaction is open meanwhile, which could be taken back. */
  async #hideFirst(): Promise<{ readonly error: unknown } | undefined> {
    const { turns, signal } = this.#options
    if (turns.rowsOwed > 0 || signal.aborted) return undefined
    try {
      await isWorkDone(this.#options, ({ queues }) => queues.nextRemake(true))
      return undefined
    } catch (error) {
      return { error }
    }
  }
}
