import { sampleCollections } from '@tributary/testkit'
import { hashDid, planSnapshot, type DidFilter, type PlanRequest } from '@tributary/segment'
import { SegmentDirectory, type SealedSegment } from '@tributary/segment/node'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { blocksPerSegment, madeDid, makeSegments, templateCount } from '../lib/made-segments.ts'

const segmentCount = 10_000
const didCount = 1000
const rounds = 5
/** How long the event loop is watched while nothing is planned. */
const idleMs = 500

interface Case {
  name: string
  request: PlanRequest
}

interface Planned {
  /** The first plan, which reads and checks the filters that it needs. */
  firstMs: number
  /** The median of those after it. */
  ms: number
  /** The longest turn of the event loop in those after the first. */
  turnMs: number
  entries: number
}

/** Plans over many sealed segments in files, with any filter: how long one takes, and for how long nobody else has a turn. */
export async function plans(bench: Bench): Promise<Figure[]> {
  const directory = bench.newDirectory('segments')
  bench.say(`plans: writing ${segmentCount} segments of ${blocksPerSegment} blocks`)
  await makeSegments(directory, segmentCount)
  await using segments = await SegmentDirectory.open({ directory })
  const { sealed } = segments
  const dids = Array.from({ length: didCount }, (_, i) => madeDid(i % templateCount, i))
  const strangers = dids.map((did) => did.replace('did:plc:a', 'did:plc:z'))
  const [collection = ''] = sampleCollections
  const cases: Case[] = [
    { name: 'everything', request: {} },
    { name: 'commits', request: { kinds: ['commit'] } },
    { name: 'one collection', request: { collections: [collection] } },
    { name: 'a pattern of collections', request: { collections: ['org.impact.*'] } },
    { name: 'one DID', request: { dids: dids.slice(0, 1) } },
    { name: `${didCount} DIDs`, request: { dids } },
    { name: `${didCount} DIDs that are nowhere`, request: { dids: strangers } },
  ]
  const idleTurnMs = await longestTurnMs(() => new Promise((resolve) => setTimeout(resolve, idleMs)))
  const blockMs = lookAtBlocks(sealed)
  const figures: Figure[] = []
  for (const { name, request } of cases) {
    bench.say(`plans: ${name}`)
    const planned = await measure(sealed, request)
    const asked = request.dids ?? []
    const reference =
      asked.length > 0
        ? {
            name: 'these DIDs asked of the filters of segments alone, this run',
            value: await askFilters(sealed, asked),
          }
        : { name: 'every block looked at in one loop, this run', value: blockMs }
    figures.push(
      {
        name: `plan over ${segmentCount} segments of ${blocksPerSegment} blocks, ${name}`,
        value: planned.ms,
        unit: 'ms',
        better: 'lower',
        references: [reference],
        note: `${planned.entries} entries; the first plan took ${planned.firstMs.toFixed(0)} ms`,
      },
      {
        name: '  longest turn of the event loop',
        value: planned.turnMs,
        unit: 'ms',
        better: 'lower',
        references: [{ name: 'the same process at rest, this run', value: idleTurnMs }],
      },
    )
  }
  return figures
}

async function measure(sealed: readonly SealedSegment[], request: PlanRequest): Promise<Planned> {
  let entries = 0
  const times: number[] = []
  const plan = async (): Promise<void> => {
    const startMs = performance.now()
    const { stats } = await planSnapshot(sealed, request, { entriesMax: segmentCount })
    times.push(performance.now() - startMs)
    entries = stats.entries
  }
  await plan()
  const [firstMs = NaN] = times.splice(0)
  const turnMs = await longestTurnMs(async () => {
    for (let round = 0; round < rounds; round++) await plan()
  })
  return { firstMs, ms: times.toSorted((a, b) => a - b)[rounds >> 1] ?? NaN, turnMs, entries }
}

/** Milliseconds of the longest turn of the event loop while something is done. */
async function longestTurnMs(action: () => Promise<void>): Promise<number> {
  let longestMs = 0
  let lastMs = performance.now()
  let isDone = false
  const turn = (): void => {
    const nowMs = performance.now()
    longestMs = Math.max(longestMs, nowMs - lastMs)
    lastMs = nowMs
    if (!isDone) setImmediate(turn)
  }
  setImmediate(turn)
  await action()
  isDone = true
  return longestMs
}

/** Milliseconds for a look at the seqs of every block, without a plan and without a pause. */
function lookAtBlocks(sealed: readonly SealedSegment[]): number {
  const times = Array.from({ length: rounds }, () => {
    const startMs = performance.now()
    let found = 0
    for (const { blocks } of sealed)
      for (const { eventCount, minSeq, maxSeq } of blocks) if (eventCount > 0 && maxSeq >= minSeq) found++
    if (found === 0) throw new Error('there are no blocks')
    return performance.now() - startMs
  })
  return times.toSorted((a, b) => a - b)[rounds >> 1] ?? NaN
}

/** Milliseconds for the questions that no plan can do without: whether the filter of each segment has a DID. */
async function askFilters(sealed: readonly SealedSegment[], dids: readonly string[]): Promise<number> {
  const filters: DidFilter[] = []
  for (const segment of sealed) filters.push(await segment.readDidFilter())
  const hashes = dids.map((did) => hashDid(did))
  const startMs = performance.now()
  let found = 0
  for (const filter of filters) for (const hash of hashes) if (filter.has(hash)) found++
  const ms = performance.now() - startMs
  if (found > filters.length * hashes.length) throw new Error('a filter counts wrongly')
  return ms
}
