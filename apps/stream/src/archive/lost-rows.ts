import type { StateDatabase } from '../state-database.ts'

/** Seqs of rows that a repair may have lost, and that readers may have seen. No row has such a seq, or ever gets it. */
export interface LostSeqs {
  /** The newest row that was kept. */
  readonly afterSeq: number
  /** The newest number that may have been given out by then. */
  readonly throughSeq: number
}

/** Notes what a repair may have lost at the end of the archive. */
export function noteLost(database: StateDatabase, { afterSeq, throughSeq }: LostSeqs): void {
  database.prepare('INSERT OR REPLACE INTO lost_rows VALUES (?, ?)').run(afterSeq, throughSeq)
}

/** Lists what repairs may have lost at the end of the archive, one range for each repair. */
export function lostSeqsOf(database: StateDatabase): LostSeqs[] {
  const lost = database.prepare<[], LostSeqs>(
    'SELECT after_seq AS afterSeq, through_seq AS throughSeq FROM lost_rows',
  )
  return lost.all()
}
