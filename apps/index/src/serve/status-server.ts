import { programVersion } from '@tributary/settings'
import type { Logger } from '@tributary/telemetry'
import { createXrpcServer, loadLexicons, type XrpcServer } from '@tributary/xrpc'
import type { StreamProgress } from '../consume/stream-consumer.ts'
import type { IndexMetrics } from './index-metrics.ts'

const preparingAgain =
  'settings or the version changed, and stored records are prepared again; until then feeds show some of them as before'

export interface StatusServerOptions {
  logger: Logger
  metrics: IndexMetrics
  /** The number of the generation that is served. */
  generation: () => number
  progress: () => StreamProgress | undefined
  /** Of the generation that is being built. */
  rebuilding: () => StreamProgress | undefined
  /** Whether stored records may still show by earlier settings, or by an earlier version. */
  isPreparing: () => boolean
}

/**
 * `/_health`: 200 while the process runs, with how far it has come. `/ready`: 200 while following the live stream, else
 * 503 and why not. Both say whether stored records are prepared again meanwhile. `/metrics`: Prometheus text. All of it is meant
 * for the operator's own network.
 */
export function createStatusServer({
  logger,
  metrics: { metrics },
  generation,
  progress,
  rebuilding,
  isPreparing,
}: StatusServerOptions): XrpcServer {
  const server = createXrpcServer({ lexicons: loadLexicons(), logger })
  const version = programVersion()
  server.route('GET', '/_health', () => ({
    status: 'ok',
    version,
    generation: generation(),
    stream: progress(),
    rebuild: rebuilding(),
    preparingAgain: isPreparing(),
  }))
  server.route('GET', '/ready', ({ reply }) => {
    const now = progress()
    const preparing = isPreparing() && { detail: preparingAgain }
    if (now?.state === 'live') return { status: 'ready', cursor: now.cursor, ...preparing }
    reply.code(503)
    return { status: 'not_ready', reason: now?.detail ?? 'starting', cursor: now?.cursor, ...preparing }
  })
  server.route('GET', '/metrics', ({ reply }) => {
    reply.header('Content-Type', metrics.contentType)
    return metrics.text()
  })
  return server
}
