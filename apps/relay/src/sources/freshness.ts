/** Whether what the relay serves is up to its sources, in one place for `/ready`, `/fresh`, metrics and operators. */
import type { SourceSet } from './source-set.ts'
import { isConnected, type SourceState } from './source-state.ts'
import type { Source } from './source.ts'

/** A relay that is behind the newest events of a source by more than this is not fresh. */
const freshLagMsMax = 60_000
const reasonsMax = 20

export interface Freshness {
  status: 'fresh' | 'stale'
  reading: 'reading' | 'paused-disk-floor' | 'paused-backlog' | 'no-source-connected'
  /**
   * How far the connected source that is furthest behind is behind. When none is connected: how long ago the last one
   * was caught up with.
   */
  lagSeconds: number
  /** Why it is stale, a sentence each. */
  reasons: string[]
  /** How many sources are in each state, removed ones left out. */
  sources: Partial<Record<SourceState, number>>
}

/**
 * Stale: reading is paused because too little disk is free, no wanted source is connected, or one that is connected lags
 * behind. A single source that is unreachable does not make it so: there is always one among many.
 */
export function freshnessOf(set: SourceSet): Freshness {
  const sources: Partial<Record<SourceState, number>> = {}
  const wanted: Source[] = []
  const connected: Source[] = []
  for (const source of set.sources) {
    const { state } = source
    if (source.policy.desired !== 'removed') sources[state] = (sources[state] ?? 0) + 1
    if (source.isWanted) wanted.push(source)
    if (isConnected({ state })) connected.push(source)
  }
  const isCutOff = wanted.length > 0 && connected.length === 0
  const lagMs = isCutOff ? leastLagMs(wanted) : Math.max(0, ...lagsOf(connected))
  const reading = pauseOf(set) ?? (isCutOff ? 'no-source-connected' : 'reading')
  const reasons: string[] = []
  if (reading === 'paused-disk-floor')
    reasons.push('No source is read: less disk is free than diskFreeMbMin.')
  if (isCutOff) {
    const since = wanted.some(({ wasRead }) => wasRead)
      ? `the last one was caught up with ${seconds(lagMs)} s ago`
      : 'none has been read yet'
    reasons.push(`None of ${wanted.length} sources is connected: ${since}.`)
  }
  for (const { host, reading } of connected)
    if (reading.lagMs > freshLagMsMax) reasons.push(`${host} is ${seconds(reading.lagMs)} s behind.`)
  return {
    status: reasons.length === 0 ? 'fresh' : 'stale',
    reading,
    lagSeconds: lagMs / 1000,
    reasons: reasons.slice(0, reasonsMax),
    sources,
  }
}

function pauseOf({ pauseReasons }: SourceSet): 'paused-disk-floor' | 'paused-backlog' | undefined {
  if (pauseReasons.includes('disk-floor')) return 'paused-disk-floor'
  return pauseReasons.includes('backlog') ? 'paused-backlog' : undefined
}

function lagsOf(sources: readonly Source[]): number[] {
  return sources.map(({ reading }) => reading.lagMs)
}

/** How long ago the last one was caught up with. Sources that were never read count when there are no others. */
function leastLagMs(sources: readonly Source[]): number {
  const read = sources.filter(({ wasRead }) => wasRead)
  return Math.min(...lagsOf(read.length > 0 ? read : sources))
}

function seconds(ms: number): number {
  return Math.round(ms / 1000)
}
