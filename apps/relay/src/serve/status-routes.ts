/** What operators and their machines ask: is it alive, is it ready, is what it serves fresh, and metrics. */
import type { EventLog } from '@tributary/event-log'
import type { Metrics } from '@tributary/telemetry'
import type { XrpcServer } from '@tributary/xrpc'
import type { SourceSet } from '../sources/source-set.ts'
import type { SourceState } from '../sources/source.ts'

export interface StatusParts {
  server: XrpcServer
  metrics: Metrics
  log: EventLog
  sources: SourceSet
}

/** Behind the newest events of a source by more than this, what is served is not fresh. */
const freshLagMsMax = 60_000

/**
 * `/_health`: the process answers. `/ready`: it serves consumers, whatever its sources do. `/fresh`: 200 while what it
 * serves is up to its sources, else 503, with the reasons in both.
 */
export function addStatusRoutes({ server, metrics, log, sources }: StatusParts): void {
  const health = () => ({ status: 'ok', version: '0.1.0' })
  server.route('GET', '/_health', health)
  server.route('GET', '/xrpc/_health', health)
  server.route('GET', '/ready', () => ({
    status: 'ready',
    headSeq: log.visibleSeq,
    reading: readingOf(sources),
  }))
  server.route('GET', '/fresh', ({ reply }) => {
    const answer = freshness(sources)
    return reply.status(answer.status === 'fresh' ? 200 : 503).send({ ...answer, headSeq: log.visibleSeq })
  })
  server.route('GET', '/metrics', async ({ reply }) =>
    reply.type(metrics.contentType).send(await metrics.text()),
  )
  server.route(
    'GET',
    '/',
    () => 'Tributary relay: com.atproto.sync.subscribeRepos and its companions are under /xrpc/\n',
  )
}

/** Whether sources are read, and if not, why. */
export function readingOf(sources: SourceSet): 'reading' | 'paused-disk-floor' | 'paused-backlog' {
  const { pauseReasons } = sources
  if (pauseReasons.includes('disk-floor')) return 'paused-disk-floor'
  return pauseReasons.includes('backlog') ? 'paused-backlog' : 'reading'
}

interface Freshness {
  status: 'fresh' | 'stale'
  reading: string
  lagSeconds: number
  /** How many sources are in each state, removed ones left out. */
  sources: Partial<Record<SourceState, number>>
}

/** Stale: reading is paused for want of disk, no wanted source is connected, or one that is lags behind. */
function freshness(sources: SourceSet): Freshness {
  const states: Partial<Record<SourceState, number>> = {}
  let wanted = 0
  let connected = 0
  let lagMs = 0
  for (const source of sources.sources) {
    const { state } = source
    if (source.policy.desired !== 'removed') states[state] = (states[state] ?? 0) + 1
    if (!source.isWanted) continue
    wanted++
    lagMs = Math.max(lagMs, source.lagMs())
    if (state === 'connected' || state === 'idle' || state === 'throttled') connected++
  }
  const reading = readingOf(sources)
  const isFresh = reading !== 'paused-disk-floor' && (wanted === 0 || connected > 0) && lagMs <= freshLagMsMax
  return { status: isFresh ? 'fresh' : 'stale', reading, lagSeconds: lagMs / 1000, sources: states }
}
