/**
 * What operators, and crawl requests, do to sources. Each is stored before it takes effect, with who asked for it; what
 * is stored is made so by `SourceSet.reconcile`, at once and at every start.
 */
import type { NormalizedHost, PrivateHosts } from '@tributary/identity'
import type { Change, OperationRequest, Operations } from '@tributary/operations'
import { CallerTurns, XrpcError } from '@tributary/xrpc'
import { isTrustedHost } from '../policy/limits.ts'
import type { PolicyStore } from '../policy/policy-store.ts'
import {
  applyChange,
  newSourcePolicy,
  type DesiredState,
  type SourcePolicy,
  type SourcePolicyChange,
  type PolicySource,
} from '../policy/source-policy.ts'
import type { StateTrail } from '../state/state-trail.ts'
import { HostProbeError, probeHost } from './host-probe.ts'
import type { SlotKeeper } from './slot-keeper.ts'
import type { SourceSet } from './source-set.ts'
import { isConnected } from './source-state.ts'
import { livePosition, type Source } from './source.ts'

export interface SourceAdminOptions extends PrivateHosts {
  policy: PolicyStore
  operations: Operations
  sources: SourceSet
  trail: StateTrail
  slots: SlotKeeper
  userAgent: string
}

/**
 * Hosts that are asked at a time because of crawl requests, each for 5 s at most, and requests that wait for that: of an
 * address as many as it may send in a minute.
 */
const crawlsMax = { underWay: 32, perNetwork: 30, all: 1000 }

export class SourceAdmin {
  readonly #options: SourceAdminOptions
  readonly #crawlTurns = new CallerTurns(crawlsMax, { underWayMax: crawlsMax.underWay })
  /** Hosts that are being asked whether they are PDSs. */
  readonly #probing = new Map<string, Promise<void>>()

  constructor(options: SourceAdminOptions) {
    this.#options = options
  }

  /**
   * @param normalized undefined for a name that is never dialled, which a source has whose private host is not allowed
   * any more.
   * @throws XrpcError 400 `HostNotFound`
   */
  known(hostname: string, normalized: NormalizedHost | undefined): Source {
    const source = this.#options.sources.byHost(normalized?.host ?? hostname.toLowerCase())
    if (!source) throw new XrpcError(400, 'HostNotFound', `${hostname} is not a source of this relay`)
    return source
  }

  /**
   * Approves a host, a PDS after asking it whether it is one. A source that was removed comes back. A source that is paused
   * stays so.
   * @param options.change what is allowed to the host. A source that is known keeps what is not given.
   * @param options.overridesDailyLimit admits it beyond the day's limit, and does not count for it.
   * @param options.refuse throws if the host is not to be added any more once it was asked.
   * @throws XrpcError 400 `HostBanned`, 400 `HostUnreachable`, 429 `RateLimitExceeded`
   */
  async add(
    host: NormalizedHost,
    request: OperationRequest,
    options: { change?: SourcePolicyChange; overridesDailyLimit?: boolean; refuse?: () => void } = {},
  ): Promise<{ hostname: string; added: boolean }> {
    const { operations, sources } = this.#options
    return await operations.run<{ hostname: string; added: boolean }>(request, async () => {
      this.#refuseBanned(host.host)
      if (!sources.byHost(host.host)) {
        if (!options.overridesDailyLimit) this.#refuseOverDailyLimit()
        // A relay does not answer what a PDS is asked.
        if (options.change?.kind !== 'relay') await this.#probe(host)
      }
      return () => {
        options.refuse?.()
        // Looked for again, since it may have been added while it was asked.
        const known = sources.byHost(host.host)
        return known ? this.#addAgain(known, options.change) : this.#insert(host, options)
      }
    })
  }

  /** Adds hosts of the settings that were never there, without asking them and without counting them. */
  seed(hosts: readonly NormalizedHost[]): void {
    const { policy, sources } = this.#options
    for (const { host, url } of hosts) {
      if (sources.byHost(host)) continue
      const isTrusted = isTrustedHost(host, policy.limits.trustedHosts)
      const decided = { ...newSourcePolicy, isTrusted }
      const place = { host, url: url.replace(/^http/, 'ws') }
      this.#adopt(policy.insertSource(place, decided, { countsForDay: false }))
    }
  }

  /** Pauses, enables, bans or removes a source. */
  async setDesired(
    source: Source,
    desired: DesiredState,
    request: OperationRequest,
    expectedRevision?: number,
  ): Promise<{ hostname: string; revision: number }> {
    return await this.#options.operations.run(request, () => () => {
      refuseStale(source, expectedRevision)
      const { revision, ...change } = this.#change(source, { desired })
      return { ...change, output: { hostname: source.host, revision } }
    })
  }

  /** Changes what is allowed to a source. Accounts that a higher quota has room for are let in. */
  async update(
    source: Source,
    change: SourcePolicyChange,
    request: OperationRequest,
    expectedRevision?: number,
  ): Promise<{ hostname: string; revision: number }> {
    return await this.#options.operations.run(request, () => () => {
      refuseStale(source, expectedRevision)
      const { revision, ...made } = this.#change(source, applyChange(source.policy, change))
      return { ...made, output: { hostname: source.host, revision } }
    })
  }

  /** Dials a source now. @throws XrpcError 400 `HostNotEnabled` */
  async reconnect(source: Source, request: OperationRequest): Promise<{ hostname: string }> {
    return await this.#act(source, request, () => this.#options.sources.reconnect(source))
  }

  /** Ends the connection of a source; it is dialled again from where it was. @throws XrpcError 400 `HostNotEnabled` */
  async disconnect(source: Source, request: OperationRequest): Promise<{ hostname: string }> {
    return await this.#act(source, request, () =>
      this.#options.sources.disconnect(source, 'disconnected by the operator'),
    )
  }

  /** Reads a source from another position: its oldest event, what is new from now on, or what comes after a seq. */
  async resetCursor(
    source: Source,
    to: 'oldest' | 'live' | number,
    request: OperationRequest,
  ): Promise<{ hostname: string; epoch: number }> {
    const { operations, policy, sources, trail } = this.#options
    return await operations.run(request, () => () => {
      const { host, cursor, epoch } = source
      const position = to === 'oldest' ? 0 : to === 'live' ? livePosition : to
      policy.storePosition(source.id, { epoch: epoch + 1, cursor: position })
      return {
        subject: host,
        before: { cursor, epoch },
        after: { cursor: position, epoch: epoch + 1 },
        output: { hostname: host, epoch: epoch + 1 },
        effect: () => {
          source.beginEpoch(Date.now(), position)
          trail.storeSource(source)
          sources.disconnect(source, 'its position was reset')
        },
      }
    })
  }

  /**
   * Goes on after a message that a source is stuck at.
   * @param through the last seq that is left out. Default: the one after what was read.
   * @throws XrpcError 400 `HostNotStuck`
   */
  async skip(
    source: Source,
    through: number | undefined,
    request: OperationRequest,
  ): Promise<{ hostname: string; cursor: number }> {
    const { operations, policy, sources, trail } = this.#options
    return await operations.run(request, () => () => {
      const before = source.receivedSeq
      const cursor = through ?? before + 1
      if (source.state !== 'stuck' || cursor <= before) {
        const message = `${source.host} is ${source.state} at ${before}: only a stuck source can be moved on, and only forward`
        throw new XrpcError(400, 'HostNotStuck', message)
      }
      policy.storePosition(source.id, { epoch: source.epoch, cursor })
      return {
        subject: source.host,
        before: { cursor: before },
        after: { cursor },
        output: { hostname: source.host, cursor },
        effect: () => {
          source.skipTo(cursor)
          trail.storeSource(source)
          sources.disconnect(source, 'moved on past what it was stuck at')
        },
      }
    })
  }

  /** @throws XrpcError 403 `CrawlDisabled` */
  refuseCrawlsIfOff(): void {
    if (this.#options.policy.limits.crawlRequests === 'on') return
    const message = 'this relay takes no crawl requests: ask its operator to add or reconnect a host'
    throw new XrpcError(403, 'CrawlDisabled', message)
  }

  /**
   * A crawl request: dials a source now, and under open admission adds a host that is none yet.
   * @param address of the caller. Addresses take turns to have hosts asked.
   * @throws XrpcError 400 `HostBanned`, `HostNotApproved`, `HostUnreachable`, 403 `CrawlDisabled`,
   *   429 `RateLimitExceeded`
   */
  async crawl(host: NormalizedHost, address: string): Promise<void> {
    const { sources } = this.#options
    this.#refuseCrawl(host.host)
    const source = sources.byHost(host.host)
    if (source) {
      if (isConnected(source)) return
      await this.#crawlTurns.run(address, () => this.#probe(host))
      sources.reconnect(source)
    } else {
      const request = { operation: 'requestCrawl', actor: 'public', idempotencyKey: undefined, input: host }
      // The request may wait for minutes, in which an operator may decide otherwise.
      const refuse = (): void => this.#refuseCrawl(host.host)
      await this.#crawlTurns.run(address, () => this.add(host, request, { refuse }))
    }
  }

  /** Refuses to dial a host because of a crawl request, unless it is a wanted source or may become one. */
  #refuseCrawl(host: string): void {
    const { policy, sources } = this.#options
    this.refuseCrawlsIfOff()
    this.#refuseBanned(host)
    const source = sources.byHost(host)
    if (source?.isWanted || (!source && policy.limits.admission === 'open')) return
    const message = `${host} is not approved here: ask the operator of this relay to add it`
    throw new XrpcError(400, 'HostNotApproved', message)
  }

  /** A source that was removed comes back; a source that is paused stays so. */
  #addAgain(source: Source, change: SourcePolicyChange = {}): Change<{ hostname: string; added: boolean }> {
    const { desired } = source.policy
    const { revision: _, ...made } = this.#change(source, {
      ...applyChange(source.policy, change),
      desired: desired === 'removed' ? 'enabled' : desired,
    })
    return { ...made, output: { hostname: source.host, added: false } }
  }

  #insert(
    { host, url }: NormalizedHost,
    {
      change = {},
      overridesDailyLimit = false,
    }: { change?: SourcePolicyChange; overridesDailyLimit?: boolean },
  ): Change<{ hostname: string; added: boolean }> {
    const { policy } = this.#options
    if (!overridesDailyLimit) this.#refuseOverDailyLimit()
    const isTrusted = isTrustedHost(host, policy.limits.trustedHosts)
    const decided = applyChange({ ...newSourcePolicy, isTrusted }, change)
    const stored = policy.insertSource({ host, url: url.replace(/^http/, 'ws') }, decided, {
      countsForDay: !overridesDailyLimit,
    })
    return {
      subject: host,
      after: { ...decided, overridesDailyLimit },
      output: { hostname: host, added: true },
      effect: () => this.#adopt(stored),
    }
  }

  /** Nothing of it is stored with the state until an event of it has passed: until then it is read from its oldest event. */
  #adopt(stored: PolicySource): void {
    const { sources } = this.#options
    sources.reconcile(sources.add(stored))
  }

  /** The change of a source's policy, which takes effect when it is stored. One that changes nothing keeps the revision. */
  #change(
    source: Source,
    change: Partial<SourcePolicy>,
  ): {
    subject: string
    before: object
    after: object
    isChanged: boolean
    effect: () => void
    revision: number
  } {
    const { policy, sources, slots } = this.#options
    const before = source.policy
    const after = { ...before, ...change }
    // Policies that were read from the store lack the fields that are not decided.
    const isChanged = JSON.stringify(before) !== JSON.stringify(after)
    const revision = isChanged ? policy.updateSource(source.id, after) : source.revision
    const effect = () => {
      sources.setPolicy(source, after, revision)
      slots.fill(source.id)
    }
    return { subject: source.host, before, after, isChanged, effect, revision }
  }

  async #act(source: Source, request: OperationRequest, act: () => void): Promise<{ hostname: string }> {
    return await this.#options.operations.run(request, () => () => {
      if (!source.isWanted)
        throw new XrpcError(
          400,
          'HostNotEnabled',
          `${source.host} is ${source.policy.desired}: enable it first`,
        )
      return { subject: source.host, output: { hostname: source.host }, effect: act }
    })
  }

  #refuseBanned(host: string): void {
    const { policy, sources } = this.#options
    const domain = policy.bannedDomainOf(host)
    if (domain !== undefined) throw new XrpcError(400, 'HostBanned', `${domain} is banned here`)
    if (sources.byHost(host)?.policy.desired === 'banned')
      throw new XrpcError(400, 'HostBanned', `${host} is banned here`)
  }

  #refuseOverDailyLimit(): void {
    const { left, retryAfterMs } = this.#options.policy.newSourcesLeft()
    if (left > 0) return
    const max = this.#options.policy.limits.newSourcesPerDay
    const message = `${max} new sources in 24 hours are all that is allowed here: try again later, or have the limit raised`
    throw new XrpcError(429, 'RateLimitExceeded', message, {
      'Retry-After': String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
    })
  }

  /** @throws XrpcError 400 `HostUnreachable` */
  async #probe(host: NormalizedHost): Promise<void> {
    const { allowedPrivateHosts, userAgent } = this.#options
    let probe = this.#probing.get(host.host)
    if (!probe) {
      probe = probeHost(host.url, { allowedPrivateHosts, userAgent })
      this.#probing.set(host.host, probe)
    }
    try {
      await probe
    } catch (error) {
      if (!(error instanceof HostProbeError)) throw error
      throw new XrpcError(400, 'HostUnreachable', `${host.host} did not answer as a PDS: ${error.message}`)
    } finally {
      this.#probing.delete(host.host)
    }
  }
}

function refuseStale(source: Source, expectedRevision: number | undefined): void {
  if (expectedRevision === undefined || expectedRevision === source.revision) return
  const message = `${source.host} is at revision ${source.revision}, not ${expectedRevision}: look again, then change it`
  throw new XrpcError(409, 'RevisionConflict', message)
}
