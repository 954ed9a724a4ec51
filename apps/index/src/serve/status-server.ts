import { programVersion } from '@tributary/settings'
import type { Logger } from '@tributary/telemetry'
import { createXrpcServer, loadLexicons, type XrpcServer } from '@tributary/xrpc'
import type { StreamProgress } from '../consume/stream-consumer.ts'
import type { IndexMetrics } from './index-metrics.ts'

export interface StatusServerOptions {
  logger: Logger
  metrics: IndexMetrics
  /** The number of the generation that is served. */
  generation: () => number
  progress: () => StreamProgress | undefined
  /** Of the generation that is being built. */
  rebuilding: () => StreamProgress | undefined
}

/**
 * `/_health`: 200 while the process runs, with how far it has come. `/ready`: 200 while following the live stream, else
 * 503 and why not. `/metrics`: Prometheus text. All of it is meant for the operator's own network.
 */
export function createStatusServer({
  logger,
  metrics: { metrics },
  generation,
  progress,
  rebuilding,
}: StatusServerOptions): XrpcServer {
  const server = createXrpcServer({ lexicons: loadLexicons(), logger })
  const version = programVersion()
  server.route('GET', '/_health', () => ({
    status: 'ok',
    version,
    generation: generation(),
    stream: progress(),
    rebuild: rebuilding(),
  }))
  server.route('GET', '/ready', ({ reply }) => {
    const now = progress()
    if (now?.state === 'live') return { status: 'ready', cursor: now.cursor }
    reply.code(503)
    return { status: 'not_ready', reason: now?.detail ?? 'starting', cursor: now?.cursor }
  })
  server.route('GET', '/metrics', ({ reply }) => {
    reply.header('Content-Type', metrics.contentType)
    return metrics.text()
  })
  return server
}
