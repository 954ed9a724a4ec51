/** The operator's methods about sources. */
import { datetime, pageOf, parseIdCursor, type Page } from '@tributary/operations'
import { XrpcError } from '@tributary/xrpc'
import { eventRatesOf, isQuotaNear } from '../../policy/limits.ts'
import type { DesiredState, SourcePolicyChange } from '../../policy/source-policy.ts'
import { hostStatuses, type SourceState } from '../../sources/source-state.ts'
import type { Source } from '../../sources/source.ts'
import { addProcedure, addQuery, normalizedHost, type OperatorParts } from './operator-parts.ts'

interface Host {
  hostname: string
}

interface Revisioned extends Host {
  expectedRevision?: number
}

export function addHostOperations(parts: OperatorParts): void {
  const { server, sources, sourceAdmin, normalize } = parts
  const sourceOf = ({ hostname }: Host): Source => sourceAdmin.known(hostname, normalize(hostname))

  addQuery<Page & { hostname?: string; state?: SourceState; desired?: DesiredState }>(
    server,
    'listHosts',
    ({ limit, cursor, hostname, state, desired }) => {
      const after = parseIdCursor(cursor)
      const only = hostname === undefined ? undefined : sourceOf({ hostname })
      const isAsked = (source: Source): boolean =>
        source.id > after &&
        (only === undefined || source === only) &&
        (state === undefined || source.state === state) &&
        (desired === undefined
          ? only !== undefined || source.policy.desired !== 'removed'
          : source.policy.desired === desired)
      const rows = [...sources.sources].filter(isAsked).toSorted((a, b) => a.id - b.id)
      const { page, ...rest } = pageOf(rows, limit, ({ id }) => id)
      return { hosts: page.map((source) => describeHost(source, parts)), ...rest }
    },
  )
  addProcedure<Host & SourcePolicyChange & { overrideDailyLimit?: boolean }>(
    server,
    'addHost',
    async ({ hostname, overrideDailyLimit = false, ...change }, request) =>
      await sourceAdmin.add(normalizedHost(parts, hostname), request, {
        change,
        overridesDailyLimit: overrideDailyLimit,
      }),
  )
  addProcedure<Revisioned & { status: DesiredState }>(
    server,
    'setHostStatus',
    async (input, request) =>
      await sourceAdmin.setDesired(sourceOf(input), input.status, request, input.expectedRevision),
  )
  addProcedure<Revisioned & SourcePolicyChange>(
    server,
    'updateHost',
    async ({ hostname, expectedRevision, ...change }, request) =>
      await sourceAdmin.update(sourceOf({ hostname }), change, request, expectedRevision),
  )
  addProcedure<Host>(
    server,
    'disconnectHost',
    async (input, request) => await sourceAdmin.disconnect(sourceOf(input), request),
  )
  addProcedure<Host>(
    server,
    'reconnectHost',
    async (input, request) => await sourceAdmin.reconnect(sourceOf(input), request),
  )
  addProcedure<Host & { position?: 'oldest' | 'live'; cursor?: number }>(
    server,
    'resetHostCursor',
    async ({ position, cursor, ...host }, request) => {
      const to = position ?? cursor
      if (to === undefined || (position !== undefined && cursor !== undefined))
        throw new XrpcError(400, 'InvalidRequest', 'give either position or cursor')
      return await sourceAdmin.resetCursor(sourceOf(host), to, request)
    },
  )
  addProcedure<Host & { through?: number }>(
    server,
    'skipHostPosition',
    async (input, request) => await sourceAdmin.skip(sourceOf(input), input.through, request),
  )
}

function describeHost(source: Source, { accounts, policy, sources }: OperatorParts) {
  const { id, host, revision, cursor, epoch, pending, lastError } = source
  const { state, reason } = source.condition
  const { desired, kind, isTrusted, validation, onRenumbered, note, ...own } = source.policy
  const { eventsReceived, eventsLogged, eventsRefused, signatureFailures, rulesWaived, gaps, losses } = source
  const quota = sources.quotaOf(id)
  const accountCount = accounts.activeOf(id)
  return {
    hostname: host,
    id,
    desired,
    state,
    status: hostStatuses[state],
    kind,
    isTrusted,
    onRenumbered,
    note,
    revision,
    cursor,
    epoch,
    pending,
    ...(reason !== undefined && { stateReason: reason }),
    ...(validation !== undefined && { validation }),
    ...(Number.isFinite(quota) && { accountQuota: quota }),
    hasOwnQuota: own.accountQuota !== undefined,
    accountCount,
    throttledCount: accounts.throttledCountOf(id),
    isQuotaNear: isQuotaNear(accountCount, quota),
    eventsPerSecond: eventRatesOf(source.policy, policy.limits).perSecond,
    hasOwnRate: [own.eventsPerSecond, own.eventsPerHour, own.eventsPerDay].some((each) => each !== undefined),
    budgets: sources.budgetsOf(id).map(({ waitMs, refillMs, ...budget }) => ({
      ...budget,
      waitSeconds: Math.ceil(waitMs / 1000),
      refillSeconds: Math.ceil(refillMs / 1000),
    })),
    lagSeconds: Math.round(source.reading.lagMs / 1000),
    eventsReceived,
    eventsLastMinute: source.lastMinute.used,
    eventsLogged,
    eventsRefused,
    signatureFailures,
    rulesWaived,
    gaps,
    losses,
    ...(lastError !== undefined && { lastError }),
    ...datetime('addedAt', source.addedAtMs),
    ...datetime('lastErrorAt', source.lastErrorAtMs),
    ...datetime('lastConnectedAt', source.lastConnectedAtMs),
    ...datetime('lastDisconnectedAt', source.lastDisconnectedAtMs),
    ...datetime('lastEventAt', source.lastEventAtMs),
  }
}
