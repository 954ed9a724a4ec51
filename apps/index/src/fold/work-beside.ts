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
  readonly onBegun: (did: Did) => void
  /** Whether what was begun last must begin again, because its account has changed. */
  readonly isOutdated: () => boolean
  /** Leaves as it is what was begun last. */
  readonly signal: AbortSignal
  readonly onFailed: (remake: Remake, error: unknown) => void
}

/** Thrown at a cut within work that does not go on. */
class EndedError extends Error {}

/**
 * Does the work of one author: those who are hidden come first, and then those who have waited longest. It is noted until it
 * is done, and begins again after a kill. An account that changes meanwhile waits behind the others: whoever comes and goes
 * all the time holds up nobody else's.
 * @returns how many authors had work; 0 also when all that is left has failed several times.
 */
export async function workBeside(options: WorkBesideOptions): Promise<number> {
  const { writer, onAuthors, onBegun, onFailed, signal } = options
  let remake: Remake | undefined
  let authors = 0
  try {
    await writer.write(async (batch) => {
      remake = await batch.queues.nextRemake()
      const all = await batch.queues.lastRemake()
      onAuthors(all.authors)
      if (remake === undefined) return
      authors = all.authors
      onBegun(remake.did)
      const isDone = await isMadeAgain(batch, remake, options)
      if (isDone || !signal.aborted) await leaveBeside(batch, remake, isDone ? 'done' : 'outdated')
    })
  } catch (error) {
    if (error instanceof IndexStorageError || remake === undefined) throw error
    const failed = remake
    onFailed(failed, error)
    await writer.write((batch) => leaveBeside(batch, failed, 'failed'))
  }
  return authors
}

/** False when it ended before it was done. */
async function isMadeAgain(batch: Batch, remake: Remake, options: WorkBesideOptions): Promise<boolean> {
  const { policy, noted } = options
  const { did, accountVersion } = remake
  const cuts = new Slices(batch, options)
  const rows = new IndexRows(undefined, noted)
  try {
    const [account] = await batch.load('accounts', [did], ['hidden'])
    const change = account?.hidden === 0n ? 'show' : 'hide'
    if (accountVersion > 0n) await changeAccount(batch, rows, { change, did }, policy, cuts)
    rows.affected.add(affectedOf(remake).noted)
    await settleAll(batch, rows.affected, cuts)
    return true
  } catch (error) {
    if (!(error instanceof EndedError)) throw error
    return false
  }
}

/** Gives way after some rows, and ends what does not go on. */
class Slices implements CutPoints {
  change = undefined
  readonly listings = new Set<string>()
  readonly #batch: Batch
  readonly #options: WorkBesideOptions
  #rowsBefore: number

  constructor(batch: Batch, options: WorkBesideOptions) {
    this.#batch = batch
    this.#options = options
    this.#rowsBefore = batch.rows
  }

  async cut(): Promise<boolean> {
    const { rowsMax, giveWay, isOutdated, signal } = this.#options
    if (this.#batch.rows - this.#rowsBefore < rowsMax) return false
    await this.#batch.split(giveWay)
    this.#rowsBefore = this.#batch.rows
    if (isOutdated() || signal.aborted) throw new EndedError()
    return true
  }
}
