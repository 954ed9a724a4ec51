import { entryAt } from './block-index.ts'
import { type DidHash, DidHashes, hashDid } from './did-filter.ts'
import { SegmentError, type SegmentProblem } from './errors.ts'
import type { SegmentReader } from './footer.ts'
import { markerNames } from './row.ts'

/** What a snapshot is wanted of; a missing or empty list means all. The caller has checked it (lexicon, caps). */
export interface PlanRequest {
  readonly kinds?: readonly ('commit' | 'identity' | 'account' | 'sync')[]
  /** NSIDs, or `a.b.*` for everything below `a.b`. They constrain commits only. */
  readonly collections?: readonly string[]
  readonly dids?: readonly string[]
  /** Exclusive; 0 or absent for everything. */
  readonly afterSeq?: number
  /** Inclusive. */
  readonly beforeSeq?: number
}

/** The answer to planSnapshot, as it goes on the wire. */
export interface SnapshotPlan {
  plannedThroughSeq: number
  sealedTipSeq: number
  segments: PlannedSegment[]
  stats: { segmentsExamined: number; segmentsMatched: number; blocksMatched: number; entries: number }
}

export interface PlannedSegment {
  name: string
  index: number
  checksum: string
  minSeq: number
  maxSeq: number
  /** `segment`: fetch the whole file. `blocks`: fetch the blocks in `blocks`. */
  mode: 'segment' | 'blocks'
  /** Block indices, both ends included. */
  blocks?: { first: number; last: number }[]
}

export interface PlanOptions {
  /** Units of one page. 0: no bound. Default 2,500. */
  readonly entriesMax?: number
  /** Resolves when the plan may go on, after a millisecond or two of work. Default: in the next turn of the event loop. */
  readonly pause?: () => Promise<void>
}

/**
 * Units of one page of a plan: whole segments and block ranges. An answer is checked against its lexicon and written in one
 * turn of the event loop, some 25 ms of work.
 */
const planEntriesMax = 2500
/** From this share of a segment's blocks on, the whole file is fetched. */
const wholeSegmentDensity = 0.75
/** Looks at blocks, and questions to filters, before others have their turn: a millisecond or two of work. */
const looksPerTurn = 20_000
/** What hashing a DID takes, in looks, and checking a filter that was not asked before. */
const looksPerHash = 20
const looksPerFilter = 100
/** Segments whose filters are asked at a time. Those of a large one take some megabytes. */
const segmentsAtOnce = 8

/** Why a filter is not to be had. Nothing is left out of a plan for it. */
const unreadable: readonly SegmentProblem[] = ['bad-filter', 'closed']

type PlannableSegment = SegmentReader & { readonly name: string; readonly index: number }

/**
 * Which sealed segments and blocks may hold rows that the request wants, from footers and filters alone
 * (segment-format.md 12.5): nothing wanted is left out, some of what is named may hold nothing wanted.
 * `segments` are in index order. A plan of more than `entriesMax` units (0: no bound) is cut, and plannedThroughSeq
 * says how far it goes. A filter that cannot be read counts as a hit; storage errors are passed on.
 */
export async function planSnapshot(
  segments: readonly PlannableSegment[],
  request: PlanRequest,
  { entriesMax = planEntriesMax, pause = nextTurn }: PlanOptions = {},
): Promise<SnapshotPlan> {
  const turns = new PlanTurns(pause)
  const wanted = await wantedRows(request, turns)
  const tipSeq = segments.reduce((tip, { header }) => Math.max(tip, header.maxSeq), 0)
  const sealedTipSeq = Math.min(tipSeq, wanted.beforeSeq)
  const stats = { segmentsExamined: 0, segmentsMatched: 0, blocksMatched: 0, entries: 0 }
  const plan: SnapshotPlan = { plannedThroughSeq: sealedTipSeq, sealedTipSeq, segments: [], stats }
  let admittedThroughSeq = 0
  const inRange = segments.filter(({ header }) => header.eventCount > 0 && isInRange(header, wanted))
  for await (const { segment, blocks } of selectAll(inRange, wanted, turns)) {
    stats.segmentsExamined++
    for (const unit of planUnits(segment, blocks)) {
      if (entriesMax > 0 && stats.entries >= entriesMax) {
        plan.plannedThroughSeq = admittedThroughSeq
        return plan
      }
      stats.entries++
      stats.blocksMatched += unit.blocksMatched
      admittedThroughSeq = unit.throughSeq
      admit(plan, segment, unit)
      stats.segmentsMatched = plan.segments.length
    }
  }
  return plan
}

/** A whole segment, or consecutive blocks of one. */
interface PlanUnit {
  readonly blocks: { first: number; last: number } | undefined
  readonly blocksMatched: number
  readonly throughSeq: number
}

function planUnits(segment: SegmentReader, selected: readonly number[]): PlanUnit[] {
  if (selected.length === 0) return []
  if (selected.length / segment.blocks.length >= wholeSegmentDensity) {
    return [{ blocks: undefined, blocksMatched: selected.length, throughSeq: segment.header.maxSeq }]
  }
  const ranges: { first: number; last: number }[] = []
  for (const index of selected) {
    const range = ranges.at(-1)
    if (range?.last === index - 1) range.last = index
    else ranges.push({ first: index, last: index })
  }
  return ranges.map((blocks) => ({
    blocks,
    blocksMatched: blocks.last - blocks.first + 1,
    throughSeq: entryAt(segment.blocks, blocks.last).maxSeq,
  }))
}

function admit(plan: SnapshotPlan, { name, index, header }: PlannableSegment, unit: PlanUnit): void {
  const last = plan.segments.at(-1)
  if (unit.blocks && last?.index === index) {
    last.blocks?.push(unit.blocks)
    return
  }
  const { checksum, minSeq, maxSeq } = header
  const segment = { name, index, checksum, minSeq, maxSeq }
  plan.segments.push(
    unit.blocks ? { ...segment, mode: 'blocks', blocks: [unit.blocks] } : { ...segment, mode: 'segment' },
  )
}

/** The request in the form that segments are asked in. */
interface WantedRows {
  readonly afterSeq: number
  readonly beforeSeq: number
  readonly dids: DidHashes
  /** The places of all of them. */
  readonly didPlaces: readonly number[]
  /** Whether a name of the collection index is a candidate; undefined when every block is. */
  readonly hasCollection: ((name: string) => boolean) | undefined
}

async function wantedRows(request: PlanRequest, turns: PlanTurns): Promise<WantedRows> {
  const { afterSeq = 0, beforeSeq = Infinity, kinds = [], collections = [], dids = [] } = request
  const wantsKind = (kind: NonNullable<PlanRequest['kinds']>[number]): boolean =>
    kinds.length === 0 || kinds.includes(kind)
  const exact = new Set(collections)
  const prefixes = collections.filter((name) => name.endsWith('.*')).map((name) => name.slice(0, -1))
  // Markers concern whole accounts, so they are wanted under any collection filter.
  const hasCollection = (name: string): boolean => {
    if (name === markerNames.identity) return wantsKind('identity')
    if (name === markerNames.account) return wantsKind('account')
    if (name === markerNames.sync) return wantsKind('sync')
    if (!wantsKind('commit')) return false
    return collections.length === 0 || exact.has(name) || prefixes.some((prefix) => name.startsWith(prefix))
  }
  const hashes: DidHash[] = []
  for (const did of dids) {
    hashes.push(hashDid(did))
    if (turns.spend(looksPerHash)) await turns.pause()
  }
  const hashed = new DidHashes(hashes)
  return {
    afterSeq,
    beforeSeq,
    dids: hashed,
    didPlaces: hashed.places(),
    hasCollection: kinds.length === 0 && collections.length === 0 ? undefined : remembering(hasCollection),
  }
}

/** Segments have the same names again and again. */
function remembering(ask: (name: string) => boolean): (name: string) => boolean {
  const answers = new Map<string, boolean>()
  return (name) => {
    let answer = answers.get(name)
    if (answer === undefined) answers.set(name, (answer = ask(name)))
    return answer
  }
}

/** Lets others have their turn of the event loop. */
class PlanTurns {
  readonly #nextTurn: () => Promise<void>
  #left = looksPerTurn
  #pause: Promise<void> | undefined

  constructor(nextTurn: () => Promise<void>) {
    this.#nextTurn = nextTurn
  }

  /** Notes work that was done. True when it is time for a pause; most often there is nothing to wait for. */
  spend(looks: number): boolean {
    this.#left -= looks
    return this.#left <= 0
  }

  /** All parts of the plan that pause at a time share what may be done in the next turn. */
  async pause(): Promise<void> {
    this.#pause ??= this.#rest()
    await this.#pause
  }

  async #rest(): Promise<void> {
    await this.#nextTurn()
    this.#pause = undefined
    this.#left = looksPerTurn
  }
}

async function nextTurn(): Promise<void> {
  await new Promise<void>((resolve) => {
    setImmediate(resolve)
  })
}

interface Selected {
  segment: PlannableSegment
  /** The indices of the blocks that may hold wanted rows, ascending. */
  blocks: number[]
}

/** Asks segment by segment, in order. Some are asked at a time, so that others are asked while filters of one are read. */
async function* selectAll(
  segments: readonly PlannableSegment[],
  wanted: WantedRows,
  turns: PlanTurns,
): AsyncGenerator<Selected, void> {
  for (let at = 0; at < segments.length; at += segmentsAtOnce) {
    const some = segments.slice(at, at + segmentsAtOnce)
    yield* await Promise.all(
      some.map(async (segment) => ({ segment, blocks: await selectBlocks(segment, wanted, turns) })),
    )
  }
}

/** The indices of the blocks that may hold wanted rows, ascending. */
async function selectBlocks(segment: SegmentReader, wanted: WantedRows, turns: PlanTurns): Promise<number[]> {
  const { hasCollection } = wanted
  const { collections } = segment
  const mask = hasCollection && collections.maskOf(hasCollection)
  if (turns.spend(collections.collections.length)) await turns.pause()
  if (hasCollection && !mask) return []
  if (turns.spend(segment.blocks.length)) await turns.pause()
  if (wanted.didPlaces.length === 0) return blocksWith(segment, wanted, mask)

  const segmentFilter = await orUnreadable(() => segment.readDidFilter())
  const dids = segmentFilter?.select(wanted.dids, wanted.didPlaces) ?? wanted.didPlaces
  if (turns.spend(wanted.didPlaces.length)) await turns.pause()
  if (dids.length === 0) return []
  const filters = await orUnreadable(() => segment.readBlockDidFilters())
  const hits: number[] = []
  for (const index of blocksWith(segment, wanted, mask)) {
    if (filters?.mayHaveAny(index, wanted.dids, dids) ?? true) hits.push(index)
    if (turns.spend(dids.length + looksPerFilter)) await turns.pause()
  }
  return hits
}

/** The blocks with rows in the range and, where a mask is given, of one of its collections. */
function blocksWith(
  { header, blocks, collections }: SegmentReader,
  wanted: WantedRows,
  mask: Uint8Array | undefined,
): number[] {
  const selected: number[] = []
  // Where all blocks are in range, a mask tells enough: a block without rows has no collection. Entries are not looked at
  // then, because those of ten thousand segments are far from each other in memory.
  const isWhole = header.minSeq > wanted.afterSeq && header.maxSeq <= wanted.beforeSeq
  // By index, because ten thousand segments have 600,000 blocks, and an iterator makes a pair for each.
  for (let i = 0; i < blocks.length; i++) {
    if (!mask || !isWhole) {
      const entry = entryAt(blocks, i)
      if (entry.eventCount === 0 || !isInRange(entry, wanted)) continue
    }
    if (!mask || collections.blockHasAny(i, mask)) selected.push(i)
  }
  return selected
}

function isInRange(
  envelope: { minSeq: number; maxSeq: number },
  { afterSeq, beforeSeq }: WantedRows,
): boolean {
  return envelope.maxSeq > afterSeq && envelope.minSeq <= beforeSeq
}

/**
 * What was read, or undefined for a filter that then may contain anything: a damaged one, or that of a file which was
 * rewritten, and closed, while the plan was made.
 */
async function orUnreadable<T>(read: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof SegmentError && unreadable.includes(error.problem)) return undefined
    throw error
  }
}
