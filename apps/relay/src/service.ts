/**
 * The relay, wired: sources → pipeline → event log → firehose, with the state trailing the log.
 * Starting reads the state, folds in what the log has beyond it, and only then connects and listens.
 * What is started is stopped in the reverse order, also when a later part cannot start.
 */
import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { createResolver, normalizeHost, socketOptions, type NormalizedHost } from '@tributary/identity'
import { createMetrics, type Logger } from '@tributary/telemetry'
import { DiskFloor, Operations } from '@tributary/operations'
import { CallerRate, createXrpcServer, loadLexicons, XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { ClientOptions } from 'ws'
import { AccountRecovery } from './accounts/account-recovery.ts'
import { systemClock } from './clock.ts'
import { HostInquiry } from './inquiry/host-inquiry.ts'
import { Pipeline } from './pipeline/pipeline.ts'
import { RelayReport } from './relay-report.ts'
import { openStorage } from './open-storage.ts'
import { addRelayGauges, createRelayMetrics } from './relay-metrics.ts'
import { Firehose } from './serve/firehose.ts'
import { HiddenAccounts } from './serve/hidden-accounts.ts'
import { addHostMethods } from './serve/host-methods.ts'
import { applyTakedowns } from './serve/operator/account-operations.ts'
import { addOperatorMethods } from './serve/operator/operator-methods.ts'
import { cannotBeSource } from './serve/operator/operator-parts.ts'
import { addStatusRoutes } from './serve/status-routes.ts'
import { addSyncMethods } from './serve/sync-methods.ts'
import type { RelaySettings } from './settings.ts'
import { NoticeWatch } from './sources/notice-watch.ts'
import { SlotKeeper } from './sources/slot-keeper.ts'
import { SourceAdmin } from './sources/source-admin.ts'
import { addSourceMetrics } from './sources/source-metrics.ts'
import { newVerification } from './verify/verification.ts'

/** Other relays and PDSs know a relay by it. */
const serverHeader = 'tributary (atproto-relay)'
const retentionEveryMs = 60_000
/** Connections at a time beside those of consumers. */
const otherConnectionsMax = 10_000
const otherConnectionsPerAddressMax = 500
/** Handshakes that every network may begin in a minute. */
const handshakesPerMinuteMin = 1000
/** Bytes of a request's head, and of its body: no method needs more. */
const requestBytesMax = 16 * 1024

export interface RelayService extends AsyncDisposable {
  /** Where it answers. */
  address: string
  /** What an operator may do to accounts. */
  accounts: AccountRecovery
}

export async function startRelay(
  settings: RelaySettings,
  { logger, nowMs = Date.now }: { logger: Logger; nowMs?: () => number },
): Promise<RelayService> {
  const { allowedPrivateHosts } = settings
  // In what this relay says when it dials, so that it knows itself when it is dialled.
  const instance = randomUUID()
  await using resources = new AsyncDisposableStack()
  const metrics = createMetrics('relay')
  const counts = createRelayMetrics(metrics)

  const clock = { ...systemClock, nowMs }
  const storage = await openStorage(settings, { logger, clock, onSync: counts.synced, fail }, resources)
  const { log, store, policy, refusals, notices, sources, trail } = storage

  const resolver = createResolver({
    plcUrl: settings.plcUrl,
    allowedPrivateHosts,
    store: store.identities,
    peeks: counts.peeks,
    onRead: counts.identityRead,
  })
  const userAgent = `tributary (atproto-relay; ${instance})`
  const inquiry = new HostInquiry({ resolver, allowedPrivateHosts, userAgent, clock })
  const hidden = new HiddenAccounts()
  const recovery = new AccountRecovery({
    log,
    accounts: store.accounts,
    sources,
    trail,
    resolver,
    inquiry,
    clock,
    onDefect: (did, error) => logger.error({ did, err: error }, 'an account could not be looked after'),
  })
  const report = new RelayReport({
    logger,
    counts,
    refusals,
    sources,
    hidden,
    log,
    directory: settings.dataDirectory,
  })
  const server = createServer(settings, logger)
  resources.defer(() => server.close())
  const firehose = new Firehose(log, {
    logger,
    serverHeader,
    hidden,
    lagMax: settings.consumerLagMax,
    places: settings,
    onEnded: counts.ended,
    onNotEncoded: counts.notEncoded,
  })
  resources.defer(() => firehose.fanout.close())
  serveFirehose(server, firehose, { instance, perAddressMax: settings.consumersPerAddressMax })
  // What is verified when the relay stops goes to the consumers before they are ended.
  resources.defer(() => log.flush())
  const pipeline = new Pipeline({
    clock,
    log,
    accounts: store.accounts,
    resolver,
    inquiry,
    recovery,
    trail,
    verification: newVerification({ workers: settings.workers }),
    strict: settings.validation === 'strict',
    identityWaitMsMax: settings.identityWaitSeconds * 1000,
    takeUnheard: (did) => sources.takeUnheard(did),
    forwardersOf: (did) => sources.forwardersOf(did),
    speakerOf: ({ sourceId }) => sources.byId(sourceId),
    refusalOfForwarded: (host) => {
      if (sources.isBanned(host)) return 'host-banned'
      const source = sources.byHost(host)
      return source?.policy.kind === 'pds' && source.isWanted ? 'direct-source' : undefined
    },
    observer: report,
  })
  resources.defer(() => pipeline.close())
  pipeline.onThreadDied((error) =>
    logger.error({ err: error }, 'a verifying thread has died; another one takes its place'),
  )
  for (const account of store.accounts.hidden()) hidden.set(account, true, log.nextSeq)
  resources.use(recovery).start(pipeline)
  pipeline.onPressure((isPressed) => sources.setPaused('backlog', isPressed))

  const normalize = (hostname: string): NormalizedHost | undefined => {
    const host = normalizeHost(hostname, { allowedPrivateHosts })
    return 'error' in host ? undefined : host
  }
  addRelayGauges(metrics, { log, fanout: firehose.fanout, sources, accounts: store.accounts, pipeline })
  const slots = new SlotKeeper({
    accounts: store.accounts,
    sources,
    recovery,
    logger,
  })
  resources.defer(() => slots.close())
  sources.onWanted((source) => {
    recovery.lookAgain(source)
    slots.fill(source.id)
  })
  sources.onRemoved((source) => recovery.takeOver(source))
  const operations = new Operations(policy.db)
  const changing = { policy, operations, sources, trail, slots }
  const sourceAdmin = new SourceAdmin({ ...changing, allowedPrivateHosts, userAgent })
  const diskFloor = new DiskFloor({
    directory: settings.dataDirectory,
    freeMbMin: () => policy.limits.diskFreeMbMin,
    reading: 'sources are',
    onChange: (isBelow) => sources.setPaused('disk-floor', isBelow),
    logger,
  })
  resources.defer(() => diskFloor.close())
  await diskFloor.look()
  addSourceMetrics(metrics, { sources, accounts: store.accounts, policy, refusals, notices, diskFloor })
  addHostMethods({ server, sources, accounts: store.accounts, admin: sourceAdmin, notices, normalize })
  addSyncMethods({ server, store, resolver })
  addStatusRoutes({ server, metrics, log, sources })
  if (settings.operatorToken !== undefined) {
    const { operatorToken, validation } = settings
    const { fanout } = firehose
    const shown = { refusals, notices, fanout, log, diskFloor, accounts: store.accounts, recovery }
    addOperatorMethods({ server, operatorToken, validation, ...changing, sourceAdmin, ...shown, normalize })
  }
  await applyTakedowns({ policy, accounts: store.accounts, recovery })

  const seeds = settings.sources.map((name) => ({ name, host: normalize(name) }))
  for (const { name, host } of seeds) {
    if (!host) logger.error({ source: name }, cannotBeSource)
  }
  sourceAdmin.seed(seeds.flatMap(({ host }) => host ?? []))
  resources.defer(() => sources.close())
  sources.connect({
    pipeline,
    logger,
    connectOptions: (target) => socketOptions(target, { allowedPrivateHosts }) as ClientOptions, // ws hands `lookup` on to the socket
    userAgent,
    onRefused: report.onRefused,
    onDefect: report.onDefect,
    onEpoch: (source) => trail.storeSource(source),
    onDisconnected: counts.disconnected,
  })
  const watch = new NoticeWatch({ sources, accounts: store.accounts, notices })
  resources.defer(() => watch.close())
  // A quota may have been raised, and not all let in, before the process ended.
  slots.fillAll()
  resources.use(setInterval(() => void log.applyRetention(), retentionEveryMs).unref())
  const { url } = await server.listen({ host: settings.host, port: settings.port })
  const started = resources.move()
  return { address: url, accounts: recovery, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

/** Going on after a failed disk could acknowledge what is not stored. */
function fail(error: Error): void {
  throw new Error(`the relay cannot go on: ${error.message}`, { cause: error })
}

function createServer(settings: RelaySettings, logger: Logger): XrpcServer {
  return createXrpcServer({
    lexicons: loadLexicons(),
    logger,
    trustedProxies: settings.trustedProxies,
    serverHeader,
    cors: true,
    headerBytesMax: requestBytesMax,
    bodyBytesMax: requestBytesMax,
    // Consumers over their limit are told so, and further calls are answered.
    connectionsMax: settings.consumersMax + otherConnectionsMax,
    connectionsPerAddressMax: settings.consumersPerAddressMax + otherConnectionsPerAddressMax,
  })
}

/** Adds the firehose. A network may begin twice as many handshakes in a minute as it may have consumers. */
function serveFirehose(
  server: XrpcServer,
  firehose: Firehose,
  { instance, perAddressMax }: { instance: string; perAddressMax: number },
): void {
  const handshakes = new CallerRate(Math.max(handshakesPerMinuteMin, 2 * perAddressMax))
  server.subscription<{ cursor?: number }>(
    'com.atproto.sync.subscribeRepos',
    ({ params: { cursor }, request: { headers }, clientAddress }) => {
      if (headers['user-agent']?.includes(instance) === true)
        throw new XrpcError(400, 'RelayLoop', 'this relay is a source of itself')
      if (cursor !== undefined && cursor < 0)
        throw new XrpcError(400, 'InvalidRequest', 'cursor is an integer of at least 0')
      // An upgraded request of an HTTP server always has a TCP socket.
      return (request, socket, head) =>
        firehose.subscribe(request, socket as Socket, head, clientAddress, cursor)
    },
    { admit: (address) => handshakes.take(address) },
  )
}
