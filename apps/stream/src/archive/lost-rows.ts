import type { StateDatabase } from '../state-database.ts'

/**
 * Seqs of rows that a repair may have lost, or a copy lacks, and that readers may have seen. No row has such a seq, or ever
 * gets it.
 */
export interface LostSeqs {
  /** The newest seq before them. */
  readonly afterSeq: number
  /** The last of them; at the end of an archive, the newest number that may have been given out by then. */
  readonly throughSeq: number
}

/** Notes what may be lost. */
export function noteLost(database: StateDatabase, { afterSeq, throughSeq }: LostSeqs): void {
  database.prepare('INSERT OR REPLACE INTO lost_rows VALUES (?, ?)').run(afterSeq, throughSeq)
}

/**
 * Notes which number comes next, when the archive is opened and before any is given out. The first start of a copy leaves
 * numbers out, and no row has those between what was lost at the end and the next one.
 * @param newestSeq of the rows that there are.
 */
export function noteNext(database: StateDatabase, newestSeq: number, nextSeq: number): void {
  database
    .prepare('UPDATE lost_rows SET through_seq = max(through_seq, ?) WHERE after_seq >= ?')
    .run(nextSeq - 1, newestSeq)
}

/** Lists what may be lost: a range for each end of the archive that a repair or a copy has left, and for each lost block. */
export function lostSeqsOf(database: StateDatabase): LostSeqs[] {
  const lost = database.prepare<[], LostSeqs>(
    'SELECT after_seq AS afterSeq, through_seq AS throughSeq FROM lost_rows WHERE after_seq >= 0 ORDER BY after_seq',
  )
  return lost.all()
}

/** The words in which a reader is told of them. */
export function lostMessage(firstSeq: number, lastSeq: number): string {
  return `Events ${firstSeq} to ${lastSeq}, as far as there were any, are no longer in the archive since it was repaired or restored`
}

/** A repair was stopped that had begun to make a damaged log whole. */
class RepairOpenError extends Error {
  override readonly name = 'RepairOpenError'
}

/** @throws RepairOpenError when a start would hide what a repair was to tell. */
export function requireRepaired(database: StateDatabase): void {
  if (isRepairOpen(database))
    throw new RepairOpenError(
      'a repair of the archive was stopped before it could say what was lost: run `tributary stream archive repair` again',
    )
}

/** Notes that a repair makes a damaged log whole. Only when that is done can it say what was lost. */
export function beginRepair(database: StateDatabase): void {
  database.exec('INSERT OR REPLACE INTO lost_rows VALUES (-1, 0)')
}

/** Whether a repair that was stopped may have made the log whole, and has not said what was lost. */
export function isRepairOpen(database: StateDatabase): boolean {
  return database.prepare('SELECT 1 FROM lost_rows WHERE after_seq = -1').get() !== undefined
}

/** A repair has said all. */
export function endRepair(database: StateDatabase): void {
  database.exec('DELETE FROM lost_rows WHERE after_seq = -1')
}
