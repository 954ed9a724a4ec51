import type { EventFilter } from '@tributary/protocol'
import { StreamError } from './errors.ts'
import { callXrpc, readJson, type Server } from './http.ts'
import { isObject } from './json.ts'
import { firstTimeSeq } from './recent-events.ts'

/** A page has at most some 100,000 entries of about 150 bytes. What JSON of this size makes of memory is bounded, too. */
const planBytesMax = 16 * 1024 * 1024
/** `seg_0000000000.jss` has 18. */
export const segmentNameCharsMax = 64
/** The format allows no more in a segment. */
const blocksMax = 1_048_576

/** One page of what has to be downloaded, in seq order (segment-format.md 12.5). */
export interface Plan {
  plannedThroughSeq: number
  sealedTipSeq: number
  entries: PlanEntry[]
}

export interface PlanEntry {
  name: string
  /** The parts of the segment that may hold wanted rows; absent when it is the whole of it. Indices are inclusive. */
  blocks?: { first: number; last: number }[]
}

/**
 * Asks for the plan of everything with afterSeq < seq ≤ beforeSeq.
 * @throws StreamError, `ProtocolError` when the answer contradicts itself.
 */
export async function fetchPlan(
  server: Server,
  filter: EventFilter,
  range: { afterSeq: number; beforeSeq: number | undefined },
  signal: AbortSignal,
): Promise<Plan> {
  const input = {
    ...(filter.kinds?.length && { kinds: filter.kinds }),
    ...(filter.dids?.length && { dids: filter.dids }),
    ...(filter.collections?.length && { collections: filter.collections }),
    ...(range.afterSeq > 0 && { afterSeq: range.afterSeq }),
    ...(range.beforeSeq !== undefined && { beforeSeq: range.beforeSeq }),
  }
  const response = await callXrpc(server, { method: 'planSnapshot', input, signal })
  const body = await readJson(response, planBytesMax)
  const plan = readPlan(body)
  if (plan === undefined) throw new StreamError('ProtocolError', 'the plan is not what planSnapshot promises')
  if (plan.plannedThroughSeq > plan.sealedTipSeq) {
    throw new StreamError(
      'ProtocolError',
      `planned through ${plan.plannedThroughSeq}, past ${plan.sealedTipSeq}`,
    )
  }
  return plan
}

function readPlan(body: unknown): Plan | undefined {
  if (!isObject(body)) return undefined
  const { plannedThroughSeq, sealedTipSeq, segments } = body
  if (!isCount(plannedThroughSeq) || !isCount(sealedTipSeq) || sealedTipSeq >= firstTimeSeq) return undefined
  if (!Array.isArray(segments)) return undefined
  const entries: PlanEntry[] = []
  for (const segment of segments) {
    const entry = readEntry(segment)
    if (entry === undefined) return undefined
    entries.push(entry)
  }
  return { plannedThroughSeq, sealedTipSeq, entries }
}

function readEntry(segment: unknown): PlanEntry | undefined {
  if (!isObject(segment)) return undefined
  const { name, mode, blocks } = segment
  if (typeof name !== 'string' || name.length > segmentNameCharsMax) return undefined
  if (mode === 'segment') return { name }
  if (mode !== 'blocks' || !Array.isArray(blocks)) return undefined
  const ranges: { first: number; last: number }[] = []
  for (const range of blocks) {
    if (!isObject(range)) return undefined
    const { first, last } = range
    if (!isCount(first) || !isCount(last) || last < first || last >= blocksMax) return undefined
    ranges.push({ first, last })
  }
  return { name, blocks: ranges }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
