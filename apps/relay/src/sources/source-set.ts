/**
 * The sources: what operators decided of each, how far it is read, and a connection for each that is wanted.
 * What is decided is in the policy store; this makes it so, and is told after every change with `reconcile`.
 */
import type { Did } from '@tributary/protocol'
import { TokenBucket } from '@tributary/rates'
import { Turns } from '@tributary/rates'
import { accountQuotaOf, eventRatesOf } from '../policy/limits.ts'
import type { ChosenPosition, PolicyStore } from '../policy/policy-store.ts'
import { newSourcePolicy, type PolicySource, type SourcePolicy } from '../policy/source-policy.ts'
import { DialPace } from './dial-pace.ts'
import type { PauseReason } from './read-gate.ts'
import { SourceConnection, type ConnectionOptions } from './source-connection.ts'
import { SourceRate, type RateBudget } from './source-rate.ts'
import { isConnected } from './source-state.ts'
import { Source, type StoredSource } from './source.ts'

interface Entry {
  source: Source
  rate: SourceRate
  connection?: SourceConnection
  /** Why this source is not read, whether it has a connection or not. */
  paused: Set<PauseReason>
  /** It was paused, banned or removed when it was looked at last. */
  isOff: boolean
}

export class SourceSet {
  readonly #policy: PolicyStore
  readonly #nowMs: () => number
  readonly #byHost = new Map<string, Entry>()
  readonly #byId = new Map<number, Entry>()
  readonly #paused = new Set<PauseReason>()
  readonly #globalBucket: TokenBucket
  readonly #shared = { turns: new Turns(), pace: new DialPace() }
  #options: ConnectionOptions | undefined
  #onWanted: (source: Source) => void = () => {}
  #onRemoved: (source: Source) => void = () => {}

  /** @param positions of sources from before; one that has no policy yet is taken as approved. */
  constructor(policy: PolicyStore, positions: readonly StoredSource[], nowMs: () => number = Date.now) {
    this.#policy = policy
    this.#nowMs = nowMs
    this.#globalBucket = new TokenBucket({ perSecond: policy.limits.eventsPerSecond }, nowMs)
    const positionOf = new Map(positions.map((position) => [position.id, position]))
    const known = new Set(policy.sources().map(({ id }) => id))
    for (const { id, host, url } of positions) {
      if (!known.has(id)) policy.insertSource({ host, url }, newSourcePolicy, { countsForDay: false, id })
    }
    for (const stored of policy.sources()) this.#put(stored, positionOf.get(stored.id))
  }

  /** All there ever were, removed ones included. */
  get sources(): Iterable<Source> {
    return this.#byId.values().map(({ source }) => source)
  }

  /** Whether events of an account were left out because they came from another host than its own. Forgets that. */
  takeUnheard(did: Did): boolean {
    let isUnheard = false
    for (const { unheard } of this.sources) isUnheard = unheard.delete(did) || isUnheard
    return isUnheard
  }

  /** Relays that forwarded something of an account lately, though another source speaks for it. */
  forwardersOf(did: Did): Source[] {
    return [...this.sources].filter(({ forwarded }) => forwarded.has(did))
  }

  byHost(host: string): Source | undefined {
    return this.#byHost.get(host)?.source
  }

  /** Whether an operator has banned a host or a domain above it. A ban of a source counts on all ports of its name. */
  isBanned(host: string): boolean {
    if (this.#policy.bannedDomainOf(host) !== undefined) return true
    return this.byHost(host)?.isBanned === true || this.byHost(host.replace(/:\d+$/, ''))?.isBanned === true
  }

  byId(id: number): Source | undefined {
    return this.#byId.get(id)?.source
  }

  /** Slots of a source for accounts. */
  quotaOf(id: number): number {
    const source = this.byId(id)
    return source ? accountQuotaOf(source.policy, this.#policy.limits) : 0
  }

  /** What may still be read of a source, and when there is more. */
  budgetsOf(id: number): RateBudget[] {
    return this.#byId.get(id)?.rate.budgets() ?? []
  }

  /** Takes in a source that the policy store has since now. It is read from its oldest event. */
  add(stored: PolicySource): Source {
    const { source } = this.#put(stored, undefined)
    return source
  }

  /** Told of each source that is wanted again after an operator had paused, banned or removed it. */
  onWanted(listener: (source: Source) => void): void {
    this.#onWanted = listener
  }

  /** Told of each source that an operator removes. */
  onRemoved(listener: (source: Source) => void): void {
    this.#onRemoved = listener
  }

  /** Starts to connect whatever is wanted. */
  connect(options: ConnectionOptions): void {
    this.#options = options
    for (const { source } of this.#byId.values()) this.reconcile(source)
  }

  /** Applies changed limits of the whole relay. */
  applyLimits(): void {
    const { limits } = this.#policy
    this.#globalBucket.perSecond = limits.eventsPerSecond
    for (const { source, rate } of this.#byId.values()) rate.rates = eventRatesOf(source.policy, limits)
  }

  /** Applies changed domain bans. */
  applyBans(): void {
    for (const { source } of this.#byId.values()) this.reconcile(source)
  }

  /** Takes in what was decided of a source. */
  setPolicy(source: Source, policy: SourcePolicy, revision: number): void {
    const before = source.policy
    source.policy = policy
    source.revision = revision
    this.reconcile(source)
    // Whether a relay may answer is asked when it is dialled.
    if (policy.kind !== before.kind) this.disconnect(source, 'its kind was changed')
    if (policy.desired === 'removed' && before.desired !== 'removed') this.#onRemoved(source)
  }

  /** Makes what is decided of a source so: its rate, and whether it is connected. */
  reconcile(source: Source): void {
    const entry = this.#byId.get(source.id)
    if (!entry || !this.#options) return
    source.bannedDomain = this.#policy.bannedDomainOf(source.host)
    entry.rate.rates = eventRatesOf(source.policy, this.#policy.limits)
    if (source.isWanted) {
      if (entry.connection) return
      const isAgain = entry.isOff
      entry.isOff = false
      const allowances = [...entry.rate.allowances, this.#globalBucket]
      entry.connection = new SourceConnection(source, this.#options, {
        allowances,
        ...this.#shared,
      })
      for (const reason of [...this.#paused, ...entry.paused]) entry.connection.setPaused(reason, true)
      if (isAgain) this.#onWanted(source)
      return
    }
    // It ends on its own. What it has read goes on through the pipeline, where a ban counts at once.
    void entry.connection?.close()
    delete entry.connection
    entry.isOff = true
  }

  /** Dials a source at once if it is wanted and has no connection. */
  reconnect(source: Source): void {
    if (!isConnected(source)) this.#byId.get(source.id)?.connection?.reconnect()
  }

  /** Ends the connection of a source, which is then dialled again at once. */
  disconnect(source: Source, reason: string): void {
    this.#byId.get(source.id)?.connection?.disconnect(reason)
  }

  /** Stops reading all sources for a reason, or takes the reason back. */
  setPaused(reason: PauseReason, isPaused: boolean): void {
    if (isPaused) this.#paused.add(reason)
    else this.#paused.delete(reason)
    for (const { connection } of this.#byId.values()) connection?.setPaused(reason, isPaused)
  }

  /** Stops reading one source for a reason of its own, or takes the reason back. */
  setSourcePaused({ id }: Source, reason: PauseReason, isPaused: boolean): void {
    const entry = this.#byId.get(id)
    if (isPaused) entry?.paused.add(reason)
    else entry?.paused.delete(reason)
    entry?.connection?.setPaused(reason, isPaused)
  }

  /** Why no source is read. Empty when they are. */
  get pauseReasons(): readonly PauseReason[] {
    return [...this.#paused]
  }

  /** Ends all connections. Whatever is added or enabled from now on is connected at the next start. */
  async close(): Promise<void> {
    this.#options = undefined
    await Promise.all(Array.from(this.#byId.values(), async ({ connection }) => await connection?.close()))
  }

  #put(stored: PolicySource, position: StoredSource | undefined): Entry {
    const { id, host, url } = stored
    const lists = { ahead: [], newestLogged: [], looks: [] }
    const start = {
      id,
      host,
      url,
      cursor: 0,
      epoch: 1,
      epochAtMs: 0,
      ...lists,
      lostAtMs: 0,
      revision: 0,
      walkFrom: '',
      caughtUpAtMs: 0,
    }
    const chosen = this.#policy.positionOf(id)
    const from = withChosen(position ?? start, chosen, this.#nowMs())
    const source = new Source(from, stored, this.#nowMs)
    if (chosen?.epoch === from.epoch) source.movedOnTo = chosen.cursor
    source.bannedDomain = this.#policy.bannedDomainOf(host)
    const rate = new SourceRate(eventRatesOf(source.policy, this.#policy.limits), this.#nowMs)
    const entry = { source, rate, paused: new Set<PauseReason>(), isOff: false }
    this.#byHost.set(host, entry)
    this.#byId.set(id, entry)
    return entry
  }
}

/**
 * A position that an operator chose counts until the state, which is written later, has its epoch. One of the same epoch
 * leaves out what cannot be read, when that is met again: what comes before it may not be done.
 */
function withChosen(stored: StoredSource, chosen: ChosenPosition | undefined, nowMs: number): StoredSource {
  if (!chosen || chosen.epoch <= stored.epoch) return stored
  // As `Source.beginEpoch` does it, so that what was said before is not taken for new.
  const lists = { ahead: [], newestLogged: [] }
  return { ...stored, ...chosen, epochAtMs: nowMs, ...lists, lostAtMs: nowMs, walkFrom: '' }
}
