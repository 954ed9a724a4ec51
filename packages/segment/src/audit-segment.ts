import type { BlockEntry } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { isDamage, SegmentError } from './errors.ts'
import type { SegmentReader } from './footer.ts'
import { SegmentSummary } from './segment-summary.ts'

/**
 * Reads every row of a segment and derives again what its header, indexes and filters say (segment-format.md 11, the
 * full audit). Returns what is wrong, one sentence each; an empty list means that header, block index, filters,
 * collection index and rows agree. Storage errors are passed on.
 */
export async function auditSegment(segment: SegmentReader): Promise<string[]> {
  const wrong: string[] = []
  const unreadable: string[] = []
  const summary = new SegmentSummary()
  for (const [i, entry] of segment.blocks.entries()) {
    const block = await orWrong(unreadable, async () => segment.readBlock(i), blockName(i, entry))
    if (!block) continue
    summary.addBlock(entry, block)
    wrong.push(...envelopeProblems(entry, block).map((what) => `block ${i} ${what}`))
  }
  // Without all rows, what the header and the indexes should say is not known.
  if (unreadable.length > 0) return unreadable
  wrong.push(...headerProblems(segment, summary))
  wrong.push(...collectionProblems(segment, summary))
  await orWrong(wrong, async () => checkFilters(segment, summary, wrong))
  return wrong
}

function envelopeProblems(entry: BlockEntry, block: BlockView): string[] {
  for (let i = 0; i < block.count; i++) {
    const witnessedAt = block.witnessedAtAt(i)
    if (witnessedAt < entry.minWitnessedAt || witnessedAt > entry.maxWitnessedAt) {
      return [`has row ${block.seqAt(i)} outside its witnessed_at envelope`]
    }
  }
  return []
}

function headerProblems({ header }: SegmentReader, summary: SegmentSummary): string[] {
  const derived = { ...summary.totals(), footerOffset: summary.end }
  return Object.entries(derived).flatMap(([field, value]) => {
    const stored = header[field as keyof typeof derived] // Object.entries widens the keys of `derived` to string.
    return stored === value ? [] : [`header says ${field} ${stored}, the blocks say ${value}`]
  })
}

function collectionProblems(segment: SegmentReader, summary: SegmentSummary): string[] {
  const wrong: string[] = []
  const stored = new Map(segment.collections.collections.map(({ name, count }) => [name, count]))
  const derived = summary.collections()
  for (const { name, count } of derived) {
    if (stored.get(name) !== count)
      wrong.push(`${name} has ${count} rows, its index says ${stored.get(name)}`)
  }
  if (stored.size !== derived.length)
    wrong.push(`the index names ${stored.size} collections, not ${derived.length}`)
  segment.blocks.forEach((_, i) => {
    const masked = new Set(
      segment.collections.idsOfBlock(i).map((id) => segment.collections.collections[id]?.name),
    )
    const held = new Set([...summary.collectionIdsOf(i)].map((id) => derived[id]?.name))
    for (const name of held.symmetricDifference(masked)) {
      wrong.push(`block ${i} ${held.has(name) ? 'holds' : 'does not hold'} ${name}, unlike its mask`)
    }
  })
  return wrong
}

async function checkFilters(segment: SegmentReader, summary: SegmentSummary, wrong: string[]): Promise<void> {
  const segmentFilter = await segment.readDidFilter()
  const filters = await segment.readBlockDidFilters()
  for (const i of segment.blocks.keys()) {
    const filter = filters.at(i)
    for (const did of summary.didsOf(i)) {
      if (!segmentFilter.has(did)) wrong.push(`a DID of block ${i} is missing from the segment filter`)
      if (!filter.has(did)) wrong.push(`a DID of block ${i} is missing from its filter`)
    }
  }
}

function blockName(i: number, { minSeq, maxSeq }: BlockEntry): string {
  return `block ${i}, seq ${minSeq} to ${maxSeq}: `
}

/** What was read; for damage undefined, and a sentence in `wrong`. */
async function orWrong<T>(wrong: string[], read: () => Promise<T>, what = ''): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof SegmentError) && !isDamage(error)) throw error
    wrong.push(`${what}${error.message}`)
    return undefined
  }
}
