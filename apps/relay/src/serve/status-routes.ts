/** What operators and their machines ask: is it alive, is it ready, is what it serves fresh, and metrics. */
import { programVersion } from '@tributary/settings'
import type { EventLog } from '@tributary/event-log'
import type { Metrics } from '@tributary/telemetry'
import type { XrpcServer } from '@tributary/xrpc'
import { freshnessOf } from '../sources/freshness.ts'
import type { SourceSet } from '../sources/source-set.ts'

export interface StatusParts {
  server: XrpcServer
  metrics: Metrics
  log: EventLog
  sources: SourceSet
}

/**
 * `/_health`: the process answers. `/ready`: it serves consumers, whatever its sources do. `/fresh`: 200 while what it
 * serves is up to its sources, else 503, with the reasons in both.
 */
export function addStatusRoutes({ server, metrics, log, sources }: StatusParts): void {
  const version = programVersion()
  const health = () => ({ status: 'ok', version })
  server.route('GET', '/_health', health)
  server.route('GET', '/xrpc/_health', health)
  server.route('GET', '/ready', () => ({
    status: 'ready',
    headSeq: log.visibleSeq,
    reading: freshnessOf(sources).reading,
  }))
  server.route('GET', '/fresh', ({ reply }) => {
    const answer = freshnessOf(sources)
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
