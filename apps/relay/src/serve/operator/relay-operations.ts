/** The operator's methods about the relay as a whole: limits, domain bans, consumers, log, refusals, audit. */
import { isDeepStrictEqual } from 'node:util'
import { CloseReason } from '@tributary/fanout'
import {
  addAuditMethod,
  datetime,
  pageOf,
  parseIdCursor,
  refuseUnknownWord,
  type Page,
} from '@tributary/operations'
import { XrpcError } from '@tributary/xrpc'
import { noticeKinds } from '../../policy/notice-rows.ts'
import { isHostPattern, limitsOf, type RelayLimits } from '../../policy/relay-limits.ts'
import { relayRefusals } from '../../refusals.ts'
import { freshnessOf } from '../../sources/freshness.ts'
import { lagSecondsAt } from '../consumer-lag.ts'
import { addProcedure, addQuery, operatorPrefix, type OperatorParts } from './operator-parts.ts'

const domainPattern = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/

export function addRelayOperations(parts: OperatorParts): void {
  addLimitOperations(parts)
  addBanOperations(parts)
  addConsumerOperations(parts)
  addLookups(parts)
}

function addLimitOperations(parts: OperatorParts): void {
  const { server, policy, operations, sources, slots, diskFloor, validation } = parts
  addQuery(server, 'getSettings', () => ({
    limits: policy.limits,
    newSourcesLeft: policy.newSourcesLeft().left,
    validation,
  }))
  addProcedure<Partial<RelayLimits>>(
    server,
    'updateSettings',
    async (change, request) =>
      await operations.run(request, () => () => {
        const wrong = change.trustedHosts?.find((pattern) => !isHostPattern(pattern))
        if (wrong !== undefined)
          throw new XrpcError(400, 'InvalidRequest', `trustedHosts: ${wrong} is neither a host nor *.suffix`)
        const before = policy.limits
        const limits = { ...before, ...limitsOf(change) }
        const isChanged = !isDeepStrictEqual(before, limits)
        if (isChanged) policy.storeLimits(limits)
        const effect = async () => {
          policy.reload()
          sources.applyLimits()
          slots.fillAll()
          await diskFloor.look()
        }
        return { subject: 'relay', before, after: limits, output: { limits }, isChanged, effect }
      }),
  )
}

function addBanOperations({ server, policy, operations, sources, recovery }: OperatorParts): void {
  const effect = () => {
    policy.reload()
    sources.applyBans()
    // Another relay may bring the accounts of a host that is banned no more.
    recovery.lookAgain()
  }
  addQuery<Page>(server, 'listDomainBans', ({ limit, cursor = '' }) => {
    const { page, ...rest } = pageOf(policy.listDomainBans(cursor, limit + 1), limit, ({ domain }) => domain)
    const bans = page.map(({ createdAtMs, ...ban }) => ({ ...ban, ...datetime('createdAt', createdAtMs) }))
    return { bans, ...rest }
  })
  addProcedure<{ domain: string; reason?: string }>(
    server,
    'putDomainBan',
    async (input, request) =>
      await operations.run(request, () => () => {
        const domain = normalizedDomain(input.domain)
        const before = reasonOfBan(policy, domain)
        const reason = input.reason ?? before?.reason ?? ''
        const isChanged = before?.reason !== reason
        if (isChanged) policy.putDomainBan(domain, reason)
        return { subject: domain, before, after: { reason }, output: { domain }, isChanged, effect }
      }),
  )
  addProcedure<{ domain: string }>(
    server,
    'deleteDomainBan',
    async (input, request) =>
      await operations.run(request, () => () => {
        const domain = normalizedDomain(input.domain)
        const before = reasonOfBan(policy, domain)
        if (!policy.deleteDomainBan(domain))
          throw new XrpcError(400, 'DomainNotBanned', `${domain} itself is not banned`)
        return { subject: domain, before, output: { domain }, effect }
      }),
  )
}

/** What the audit has of a ban before it changes. Undefined when the domain itself is not banned. */
function reasonOfBan(policy: OperatorParts['policy'], domain: string): { reason: string } | undefined {
  const ban = policy.domainBanOf(domain)
  return ban && { reason: ban.reason }
}

function normalizedDomain(text: string): string {
  const domain = text.trim().toLowerCase()
  if (!domainPattern.test(domain)) throw new XrpcError(400, 'InvalidRequest', `${text} is not a domain`)
  return domain
}

function addConsumerOperations({ server, operations, fanout, log }: OperatorParts): void {
  addQuery(server, 'listConsumers', () => ({
    consumers: fanout.subscribers().map(({ connectedAtMs, ...consumer }) => {
      const lagSeconds = lagSecondsAt(log, consumer.position)
      return {
        ...consumer,
        ...datetime('connectedAt', connectedAtMs),
        ...(lagSeconds !== undefined && { lagSeconds }),
      }
    }),
  }))
  addProcedure<{ id: number }>(
    server,
    'disconnectConsumer',
    async ({ id }, request) =>
      await operations.run(request, () => () => {
        const consumer = fanout.subscribers().find((each) => each.id === id && each.state !== 'closed')
        if (!consumer) throw new XrpcError(400, 'ConsumerNotFound', `no consumer ${id} is connected`)
        const { remoteAddress, userAgent, position } = consumer
        const message = 'The operator ended this connection'
        return {
          subject: `consumer ${id}`,
          before: { remoteAddress, userAgent, position },
          output: { id },
          effect: () => void fanout.disconnect(id, new CloseReason(1008, 'Disconnected', message)),
        }
      }),
  )
}

function addLookups({
  server,
  operations,
  refusals,
  notices,
  log,
  sources,
  diskFloor,
  normalize,
}: OperatorParts): void {
  addQuery<Page & { hostname?: string; reason?: string; did?: string }>(
    server,
    'listRefusals',
    async ({ limit, cursor, hostname, ...wanted }) => {
      refuseUnknownWord('reason', wanted.reason, relayRefusals)
      const host = hostname === undefined ? {} : { host: normalize(hostname)?.host ?? hostname }
      const before = parseIdCursor(cursor, Number.MAX_SAFE_INTEGER)
      const rows = await refusals.list({ ...wanted, ...host, before, limit: limit + 1 })
      const { page, ...rest } = pageOf(rows, limit, ({ id }) => id)
      return {
        refusals: page.map(({ id, atMs, host: source, reason, kind, did, upstreamSeq, detail }) => ({
          id,
          hostname: source,
          reason,
          detail,
          ...datetime('at', atMs),
          ...(kind !== null && { kind }),
          ...(did !== null && { did }),
          ...(upstreamSeq !== null && { upstreamSeq: Math.max(0, upstreamSeq) }),
        })),
        ...rest,
      }
    },
  )
  addQuery<Page & { subject?: string; kind?: string }>(
    server,
    'listNotices',
    async ({ limit, cursor, ...wanted }) => {
      refuseUnknownWord('kind', wanted.kind, noticeKinds)
      const before = parseIdCursor(cursor, Number.MAX_SAFE_INTEGER)
      const rows = await notices.list({ ...wanted, before, limit: limit + 1 })
      const { page, ...rest } = pageOf(rows, limit, ({ id }) => id)
      return { notices: page.map(({ atMs, ...row }) => ({ ...row, ...datetime('at', atMs) })), ...rest }
    },
  )
  addAuditMethod(server, operatorPrefix, operations)
  addQuery(server, 'getLogState', () => {
    const { visibleSeq, durableSeq, nextSeq, oldestSeq, lastDeletedSeq, pendingBytes, files } = log
    return {
      headSeq: visibleSeq,
      durableSeq,
      nextSeq,
      oldestSeq,
      lastDeletedSeq,
      pendingBytes,
      files: files.length,
      bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
      reading: freshnessOf(sources).reading,
      ...(diskFloor.freeBytes !== undefined && { diskFreeBytes: diskFloor.freeBytes }),
    }
  })
}
