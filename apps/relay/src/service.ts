/**
 * The relay, wired: sources → pipeline → event log → firehose, with the state trailing the log.
 * Starting reads the state, folds in what the log has beyond it, and only then connects and listens.
 */
import { mkdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { createResolver, normalizeHost, socketOptions, type NormalizedHost } from '@tributary/identity'
import { createMetrics, type Logger } from '@tributary/telemetry'
import { createXrpcServer, loadLexicons, XrpcError } from '@tributary/xrpc'
import type { ClientOptions } from 'ws'
import { Pipeline } from './pipeline/pipeline.ts'
import type { OnRefused } from './refusals.ts'
import { openLog } from './open-log.ts'
import { addRelayGauges, createRelayMetrics } from './relay-metrics.ts'
import { Firehose } from './serve/firehose.ts'
import { addHostMethods } from './serve/host-methods.ts'
import { addSyncMethods } from './serve/sync-methods.ts'
import type { RelaySettings } from './settings.ts'
import { SourceSet } from './sources/source-set.ts'
import { recoverState } from './state/recover-state.ts'
import { resetState } from './state/reset-state.ts'
import { StateStore } from './state/state-store.ts'
import { StateTrail } from './state/state-trail.ts'

/** Other relays and PDSs know a relay by it. */
const serverHeader = 'tributary (atproto-relay)'
const retentionEveryMs = 60_000

export interface RelayService extends AsyncDisposable {
  /** Where it answers. */
  address: string
}

export async function startRelay(
  settings: RelaySettings,
  { logger }: { logger: Logger },
): Promise<RelayService> {
  const { allowedPrivateHosts } = settings
  const fail = (error: Error): void => {
    // Going on could acknowledge what is not stored.
    throw new Error(`the relay cannot go on: ${error.message}`, { cause: error })
  }
  mkdirSync(settings.dataDirectory, { recursive: true })
  const metrics = createMetrics('relay')
  const counts = createRelayMetrics(metrics)

  const log = await openLog(settings, counts.synced)
  log.onFailure(fail)
  const stateFile = join(settings.dataDirectory, 'state.sqlite')
  if (settings.rebuildState) resetState(stateFile)
  const store = new StateStore(stateFile)
  store.onFailure(fail)
  const sources = new SourceSet(store.sources)
  const trail = new StateTrail(store, () => sources.sources)
  const folded = await recoverState(log, store, sources, trail)
  logger.info(
    { folded, headSeq: log.visibleSeq, nextSeq: log.nextSeq, accounts: store.accounts.size },
    'state is up to the log',
  )
  log.onDurable((seq) => trail.durable(seq))

  const onRefused: OnRefused = (source, reason, detail, event) => {
    counts.refused(reason)
    logger.debug({ host: source.host, reason, detail, ...event }, 'event refused')
  }
  const pipeline = new Pipeline({
    log,
    accounts: store.accounts,
    resolver: createResolver({ plcUrl: settings.plcUrl, allowedPrivateHosts }),
    trail,
    workers: settings.workers,
    strict: settings.validation === 'strict',
    onReceived: (_, type, bytes) => counts.received(type, bytes),
    onRefused,
    onIdentityFault: (did, error) =>
      logger.warn(
        { did, reason: error.reason, retryAfterMs: error.retryAfterMs, err: error.cause },
        'identity not read',
      ),
  })
  pipeline.onError(fail)
  pipeline.onPressure((isPressed) => sources.setPaused(isPressed))

  const normalize = (hostname: string): NormalizedHost | undefined => {
    const host = normalizeHost(hostname, { allowedPrivateHosts })
    return 'error' in host ? undefined : host
  }
  const firehose = new Firehose(log, { logger, serverHeader })
  addRelayGauges(metrics, { log, fanout: firehose.fanout, sources, accounts: store.accounts })
  const server = createXrpcServer({
    lexicons: loadLexicons(),
    logger,
    trustedProxies: settings.trustedProxies,
    serverHeader,
    cors: true,
  })
  server.subscription<{ cursor?: number }>(
    'com.atproto.sync.subscribeRepos',
    ({ params, request, socket, head, clientAddress }) => {
      const { cursor } = params
      if (cursor !== undefined && cursor < 0)
        throw new XrpcError(400, 'InvalidRequest', 'cursor is an integer of at least 0')
      firehose.subscribe(request, socket as Socket, head, clientAddress, cursor) // node:http hands over TCP sockets
    },
  )
  addHostMethods({ server, sources, accounts: store.accounts, normalize })
  addSyncMethods({ server, store })
  const health = () => ({ status: 'ok', version: '0.1.0' })
  server.route('GET', '/_health', health)
  server.route('GET', '/xrpc/_health', health)
  server.route('GET', '/ready', () => ({ status: 'ready', headSeq: log.visibleSeq }))
  server.route('GET', '/metrics', async ({ reply }) =>
    reply.type(metrics.contentType).send(await metrics.text()),
  )
  server.route(
    'GET',
    '/',
    () => 'Tributary relay: com.atproto.sync.subscribeRepos and its companions are under /xrpc/\n',
  )

  for (const name of settings.sources) {
    const host = normalize(name)
    if (host) sources.add(host, trail)
    else
      logger.error(
        { source: name },
        'not a host name that can be a source; private hosts have to be in allowedPrivateHosts',
      )
  }
  sources.connectAll({
    pipeline,
    logger,
    connectOptions: (url) => socketOptions(url, { allowedPrivateHosts }) as ClientOptions, // ws hands `lookup` on to the socket
    userAgent: serverHeader,
    onRefused,
    onEpoch: (source) => trail.storeSources([source]),
  })
  const retention = setInterval(() => log.applyRetention(), retentionEveryMs).unref()
  const { url } = await server.listen({ host: settings.host, port: settings.port })
  return {
    address: url,
    async [Symbol.asyncDispose]() {
      clearInterval(retention)
      await sources.close()
      await pipeline.close()
      await log.flush()
      await firehose.fanout.close()
      await server.close()
      trail.close()
      await store.close()
      await log.close()
    },
  }
}
