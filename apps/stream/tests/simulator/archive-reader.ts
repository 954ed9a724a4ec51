/** Reads a plan and all that it names, and says what of it differs from what was shown live. */
import { planSnapshot, type Row } from '@tributary/segment'
import type { SegmentDirectory } from '@tributary/segment/node'
import { mayBeGone, type Ledger } from './ledger.ts'
import { wants, type Filter } from './subscriber.ts'

/** Units of a page, so that plans have several. */
const entriesMax = 2

/** @returns what is wrong. */
export async function readArchive(
  segments: SegmentDirectory,
  ledger: Ledger,
  { filter, afterSeq }: { filter: Filter; afterSeq: number },
): Promise<string | undefined> {
  const found: number[] = []
  let position = afterSeq
  let tipSeq: number | undefined
  for (;;) {
    const plan = await planSnapshot(segments.sealed, { ...filter, afterSeq: position }, { entriesMax })
    tipSeq ??= Math.max(position, plan.sealedTipSeq)
    for (const { index, blocks } of plan.segments) {
      const segment = segments.findSealed(index)
      if (!segment) return `a plan names segment ${index}, which is not there`
      if (segment.header.maxSeq <= position)
        return `a plan after ${position} names segment ${index}, which ends there`
      const ranges = blocks ?? [{ first: 0, last: segment.blocks.length - 1 }]
      for (const { first, last } of ranges)
        for (let block = first; block <= last; block++) {
          const { maxSeq = Infinity } = segment.blocks[block] ?? {}
          if (blocks && maxSeq <= position)
            return `a plan after ${position} names block ${block}, which ends there`
          for (const row of (await segment.readBlock(block)).rows())
            if (isWanted(row, position, plan.plannedThroughSeq)) found.push(row.seq)
        }
    }
    if (plan.plannedThroughSeq <= position || plan.plannedThroughSeq >= tipSeq) break
    position = plan.plannedThroughSeq
  }
  const read = found.filter((seq) => seq <= (tipSeq ?? 0))
  const isRead = new Set(read)
  const live = ledger.rows.filter(({ row }) => isWanted(row, afterSeq, tipSeq ?? 0))
  // What may have left the archive may be there still.
  const wanted = live.filter((shown) => isRead.has(shown.seq) || !mayBeGone(shown)).map(({ seq }) => seq)
  return read.join() === wanted.join()
    ? undefined
    : `the archive after ${afterSeq} through ${tipSeq} has ${read.join()}, and not ${wanted.join()}`

  function isWanted(row: Row, after: number, through: number): boolean {
    return row.seq > after && row.seq <= through && wants(filter, row)
  }
}
