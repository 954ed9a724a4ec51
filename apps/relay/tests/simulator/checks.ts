/** What must hold at every moment, and what must hold when the world has been as it should be for a while. */
import type { Did } from '@tributary/protocol'
import type { Account } from '../../src/state/account.ts'
import { livePosition } from '../../src/sources/source.ts'
import { publicStatus, statusOf } from '../../src/state/account.ts'
import type { StateStore } from '../../src/state/state-store.ts'
import type { Part, Place } from './conditions.ts'
import { sourceOf, type Entry, type SimulatedAccount, type SimulatedHost } from './hosts.ts'
import type { RelayProcess, World } from './relay-process.ts'
import type { Watch } from './watch.ts'

/** From when all that an event needs is as it should be until it is logged or refused. */
const waitMsMax = 4000
/** How long what went wrong may be felt: a document that could not be read, or a silent host, is not asked again at once. */
const aftermathMs: Readonly<Record<Part, number>> = {
  directory: 150_000,
  answers: 70_000,
  link: 5000,
  threads: 5000,
  disk: 10_000,
  database: 5000,
  clock: 70_000,
  flood: 70_000,
}
/** How often a relay may have the document of one account read again at once, and after which time once more. */
const perDid = { burst: 3, everyMs: 30_000 }
/** From when an account misses something until it is whole, where nothing is in the way. */
const healMsMax = 30_000
/** Events of a source that are under way, above which it is not read, and how long one may be in the way of so many. */
const pending = { events: 250, packet: 16, waitMs: 20_000 }

const shared: readonly Place[] = ['directory', 'answers', 'link', 'threads', 'disk', 'database', 'clock']

export class Checks {
  readonly #world: World
  readonly #watch: Watch
  readonly #broken: (what: string) => void
  #startedMs = 0
  /** The newest seq that was given out, or may have been, before the start. */
  #startSeq = 0
  /** Since when accounts have been marked. */
  readonly #markedMs = new Map<string, number>()
  /** Since when sources have been held up. */
  readonly #reported = new Set<string>()
  /** The process that has ended last. */
  #ended: RelayProcess | undefined
  /** Accounts that had left their sources at the end of it. */
  #departed: string[] = []
  /**
   * Accounts, with their sources, that had left these before a kill, which the relay had not stored yet. Their slots were
   * given to others, of which the log tells: until one of them leaves, a source has so many slots more.
   */
  readonly #forgotten = new Set<string>()
  /** What accounts were at the end of it. Undefined when something was under way to the log. */
  #remembered: { accounts: Map<string, string>; wasStopped: boolean } | undefined

  constructor(world: World, watch: Watch) {
    this.#world = world
    this.#watch = watch
    this.#broken = (what) => {
      // What does not end is told of once.
      if (!this.#reported.has(what)) watch.onBroken(what)
      this.#reported.add(what)
    }
    watch.onRecovered = (relay) => this.#isAsBefore(relay)
  }

  /** A process ends. It may be told of twice. */
  remember(relay: RelayProcess | undefined, wasStopped: boolean): void {
    const isTold = relay === this.#ended
    this.#ended = relay
    if (relay?.hasStarted && !isTold) this.#departed = this.#departedIn(relay)
    if (!relay?.hasStarted || relay.hasFailed || isTold) return
    const { log } = relay.parts
    const isWhole = wasStopped || log.durableSeq === log.nextSeq - 1
    if (isWhole) this.#remembered = { accounts: this.#statesOf(relay, wasStopped), wasStopped }
  }

  /** What a start makes of the stored state and the log is what the accounts were. */
  #isAsBefore(relay: RelayProcess): void {
    const before = this.#remembered
    this.#remembered = undefined
    if (!before) return
    const after = this.#statesOf(relay, before.wasStopped)
    for (const [did, state] of before.accounts)
      if (after.get(did) !== state)
        this.#broken(`A7: ${did} was ${state} before a start, and is ${after.get(did)}`)
    for (const [did, state] of after)
      if (!before.accounts.has(did)) this.#broken(`A7: ${did} was not known before a start, and is ${state}`)
  }

  /** What is known of each account of which something has passed. */
  #statesOf({ parts: { store } }: RelayProcess, wasStopped: boolean): Map<string, string> {
    const known = [...this.#world.directory.accounts.keys()].map((did) => store.accounts.get(did))
    const passed = known.filter((account) => account !== undefined).filter(({ sourceId }) => sourceId !== 0)
    return new Map(passed.map((account) => [account.did, stateOf(account, wasStopped)]))
  }

  started(relay: RelayProcess): void {
    this.#startedMs = this.#world.time.nowMs
    this.#startSeq = relay.parts.log.nextSeq - 1
    this.#markedMs.clear()
    const departed = this.#departedIn(relay)
    for (const each of this.#departed) if (!departed.includes(each)) this.#forgotten.add(each)
  }

  /** Accounts that have left their sources, with these. */
  #departedIn({ parts: { store } }: RelayProcess): string[] {
    const known = [...this.#world.directory.accounts.keys()].map((did) => store.accounts.get(did))
    return known.flatMap((account) => (account?.hasDeparted ? [`${account.sourceId} ${account.did}`] : []))
  }

  /** What must hold at every moment. */
  now(relay: RelayProcess): void {
    const nowMs = this.#world.time.nowMs
    this.#nobodyIsHeldUp(nowMs)
    const { log, trail } = relay.parts
    if (trail.newestSeq > Math.max(log.durableSeq, this.#startSeq) && log.pendingBytes === 0)
      this.#broken('A3: records wait for the disk and count for nothing')
    for (const source of relay.parts.sources.sources) {
      const { openSpan, oldest, host } = source
      if (openSpan > pending.events + pending.packet)
        this.#broken(`A3: ${host} has ${openSpan} events under way`)
      const sinceMs = Math.max(oldest?.receipt.receivedAtMs ?? nowMs, this.#calmFromMs(['threads']))
      if (openSpan > pending.events && nowMs - sinceMs > pending.waitMs)
        this.#broken(`A2: an event of ${oldest?.account.did} holds up ${host}`)
    }
    for (const account of this.#world.directory.accounts.values()) this.#isHealed(relay, account, nowMs)
  }

  /** What must hold in the end. @returns what does not hold yet. */
  settled(relay: RelayProcess): string[] {
    const { sources, directory } = this.#world
    const faults: string[] = []
    for (const host of sources) {
      const source = relay.parts.sources.byHost(host.name)
      const { lastSeq } = host
      // Where nothing more can be read, no cursor moves before something comes.
      const isGone = host.keptFrom > 0 && lastSeq < (host.journal[host.keptFrom]?.seq ?? Infinity)
      const isAtEnd = source?.cursor === livePosition || isGone
      if (!source || (source.cursor < lastSeq && !isAtEnd))
        faults.push(`A4: the cursor of ${host.name} is at ${source?.cursor} of ${lastSeq}`)
      // Accounts may wait whose hosts give nothing of use.
      if (source && source.lostAtMs > 0 && relay.parts.recovery.waiting === 0)
        faults.push(`A7: not all accounts of ${host.name} are looked after`)
      for (const entry of host.journal)
        if (!this.#watch.outcomes.has(entry))
          faults.push(`A7: ${entry.kind} ${entry.seq} of ${host.name} went missing without a word`)
    }
    for (const account of directory.accounts.values()) {
      if (account.isMadeUp) continue
      const known = relay.parts.store.accounts.get(account.did)
      // An account that the directory does not know is not remembered before something of it has passed.
      if (!known && !directory.denied.has(account.did) && !this.#isForgotten(account))
        faults.push(`A7: account ${account.index} is not known`)
      if (known) faults.push(...this.#accountFaults(relay, account, known))
    }
    faults.push(...this.#slotFaults(relay), ...this.#restFaults(relay))
    return faults.length > 0 ? faults : this.#pageFaults(relay)
  }

  /** Sources have nothing more that they said of the account, and a kill may have come before the relay had stored it. */
  #isForgotten({ did }: SimulatedAccount): boolean {
    const said = this.#world.sources.flatMap((host) =>
      host.journal.flatMap((entry, at) => (entry.did === did ? [at < host.keptFrom] : [])),
    )
    return said.length > 0 && said.every(Boolean)
  }

  /** Nothing counts as waiting any more. */
  #restFaults({ parts: { log, pipeline } }: RelayProcess): string[] {
    const { events, bytes } = pipeline.waiting
    const counts = [log.pendingBytes, events, bytes]
    return counts.every((count) => count === 0)
      ? []
      : [`A3: ${counts.join(', ')} bytes and events still wait`]
  }

  /** No source has more active accounts than slots, and nobody waits for one while there is one. */
  #slotFaults({ parts: { sources, store } }: RelayProcess): string[] {
    return [...sources.sources].flatMap(({ id, host }) => {
      const [active, quota] = [store.accounts.activeOf(id), sources.quotaOf(id)]
      const waiting = store.accounts.throttledCountOf(id)
      const more = [...this.#forgotten].filter((each) => each.startsWith(`${id} `)).length
      const isWrong = active > quota + more || (active < quota && waiting > 0)
      return isWrong ? [`${host} has ${quota} slots, ${active} are held, ${waiting} accounts wait`] : []
    })
  }

  /** The pages say what the accounts are. */
  #pageFaults({ parts: { store } }: RelayProcess): string[] {
    const isShown = (did: string): boolean => this.#world.directory.accounts.get(did)?.isMadeUp === false
    const listed = store.listRepos('', 1000).repos.filter(({ did }) => isShown(did))
    const shown = listed.map(({ did, rev }) => `${did} ${rev}`)
    const active = [...this.#world.directory.accounts.values()]
      .map(({ did }) => store.accounts.get(did))
      .filter((known) => known !== undefined && isShown(known.did) && publicStatus(known).active)
      .flatMap((known) => (known?.rev === undefined ? [] : `${known.did} ${known.rev}`))
      .toSorted()
    return shown.join() === active.join()
      ? this.#storedFaults(store)
      : [`A7: listRepos says ${shown.join()}, and not ${active.join()}`]
  }

  /** Each stored account must be known, and listed with just the collections in which it wrote since it was deleted. */
  #storedFaults(store: StateStore): string[] {
    const { storage, directory } = this.#world
    const made = storage.storedDids.find((did) => !store.accounts.get(did as Did)) // as it was stored
    if (made !== undefined) return [`A3: ${made} is stored, and is forgotten`]
    const views = [...this.#watch.views].filter(([did]) => !directory.accounts.get(did)?.isMadeUp)
    const all = new Set(views.flatMap(([, { collections }]) => [...collections]))
    return [...all].flatMap((collection) => {
      const said = store.listReposByCollection(collection, '', 1000).repos
      const listed = said.filter(({ did }) => !directory.accounts.get(did)?.isMadeUp).map(({ did }) => did)
      const wanted = views
        .filter(([did, view]) => view.collections.has(collection) && isActive(store.accounts.get(did as Did))) // as sent
        .map(([did]) => did)
        .toSorted()
      return listed.join() === wanted.join()
        ? []
        : [`A7: those with ${collection} are ${listed.join()}, and not ${wanted.join()}`]
    })
  }

  #accountFaults(relay: RelayProcess, account: SimulatedAccount, known: Account): string[] {
    const faults: string[] = []
    const { index, did, host, status, head } = account
    const name = `account ${index}`
    const view = this.#watch.viewOf(did)
    const local = this.#world.storage.policy.takedownOf(did)?.status
    const speaker = relay.parts.sources.byId(known.sourceId)?.host
    // Nobody is asked about an account that is left out here.
    const isLooked = local === undefined
    const home = sourceOf(host, this.#world.sources)?.name
    if (isLooked && status === 'active' && speaker !== home)
      faults.push(`A7: ${name} is taken for one of ${speaker}, not ${home}`)
    // A host is not believed at once that it does not know an account.
    const isGone = status === 'deleted' && known.upstreamStatus !== 'active'
    if (isLooked && !isGone && known.upstreamStatus !== status)
      faults.push(`A7: ${name} is said to be ${known.upstreamStatus}, its host says ${status}`)
    if (known.localStatus !== local) faults.push(`A7: ${name} is ${known.localStatus} here, not ${local}`)
    const said = statusOf(publicStatus(known))
    if (view.status !== undefined && view.status !== said)
      faults.push(`A7: consumers take ${name} for ${view.status}, the relay says ${said}`)
    if (!publicStatus(known).active) return faults
    if (known.rev !== head.rev) faults.push(`A7: ${name} is at ${known.rev}, at its host at ${head.rev}`)
    if (view.rev !== head.rev) faults.push(`consumers have ${name} at ${view.rev}, its host at ${head.rev}`)
    if (view.isBroken) faults.push(`consumers miss commits of ${name}`)
    if (known.isIncomplete) faults.push(`A7: ${name} is still to be made whole`)
    return faults
  }

  /** A2: what waits for nothing of its own is logged or refused soon. */
  #nobodyIsHeldUp(nowMs: number): void {
    // A message that is not as it should be may need a document that was read too often. It waits before its own only.
    const held = new Set([...this.#watch.open.keys()].filter(({ isHonest }) => !isHonest).map(laneOf))
    for (const [entry, deliveredMs] of this.#watch.open) {
      const account = this.#world.directory.accounts.get(entry.did)
      if (!account || account.isMadeUp || held.has(laneOf(entry))) continue
      const fromMs = Math.max(
        deliveredMs,
        this.#calmFromMs(placesOf(account, entry.host)),
        entry.host.isRelay ? this.#calmFromMs(placesOf(account, account.host)) : 0,
        account.changedAtMs + aftermathMs.directory,
      )
      // How often the document of one account is read is bounded, and each move takes some readings.
      const maxMs = account.isUnsettled ? aftermathMs.directory : waitMsMax
      if (nowMs - fromMs <= maxMs) continue
      if (nowMs - fromMs > maxMs + perDid.everyMs || !this.#mustWaitForDocument(entry, nowMs))
        this.#broken(`A2: ${entry.kind} ${entry.seq} of ${entry.host.name} waits since ${deliveredMs}`)
    }
  }

  /** A2: an account that misses something is made whole, whatever else there is to be made whole. */
  #isHealed(relay: RelayProcess, account: SimulatedAccount, nowMs: number): void {
    const known = relay.parts.store.accounts.get(account.did)
    // What the host says of an account that has moved counts when the relay that brings it has said something.
    const { sources } = relay.parts
    const speaker = sources.byId(known?.sourceId ?? 0)
    // An operator who decides on a source for a while does so also when all is to be well.
    const isHeard =
      sources.byHost(account.host.name)?.isWanted ?? (speaker?.policy.kind === 'relay' && speaker.isWanted)
    const isWaiting =
      known?.isIncomplete === true &&
      isHeard &&
      publicStatus(known).active &&
      account.status === 'active' &&
      !account.isMadeUp
    if (!isWaiting || this.#watch.muddled.has(account.did)) {
      this.#markedMs.delete(account.did)
      return
    }
    const markedMs = this.#markedMs.get(account.did) ?? nowMs
    this.#markedMs.set(account.did, markedMs)
    const calmMs = Math.max(
      markedMs,
      this.#calmFromMs(placesOf(account, account.host)),
      account.changedAtMs + aftermathMs.directory,
    )
    if (nowMs - calmMs > healMsMax + 2 * (calmMs - markedMs))
      this.#broken(`A2: account ${account.index} is not made whole, marked since ${markedMs}`)
  }

  /** Its host said other things of this account so often that its document is not read again at once. */
  #mustWaitForDocument(entry: Entry, nowMs: number): boolean {
    const sinceMs = nowMs - (perDid.burst + 1) * perDid.everyMs
    // A PDS may name it by #identity more often.
    const kind = entry.host.isRelay ? 'identity' : 'account'
    return this.#watch.saidSince(entry, kind, sinceMs) >= perDid.burst
  }

  /** From when nothing is felt any more of what these places, or all of their kind, were like. */
  #calmFromMs(places: readonly Place[]): number {
    const felt = [...shared, ...places].map((place) => {
      const oddMs = this.#world.conditions.oddUntilMs(place)
      const part = place.split(' ', 1)[0] as Part // as a place is written
      return oddMs === 0 ? 0 : oddMs + aftermathMs[part]
    })
    return Math.max(this.#startedMs, ...felt)
  }
}

function isActive(account: Account | undefined): boolean {
  return account !== undefined && publicStatus(account).active
}

/** What is known of an account. */
function stateOf(account: Account, wasStopped: boolean): string {
  const { sourceId, upstreamStatus, localStatus, throttledAtMs, rev, data, isIncomplete } = account
  const tree = data === undefined ? '' : Buffer.from(data, 'latin1').toString('hex', 0, 4)
  // Who is left out here is made whole when it is let in, marked or not.
  const isMarked = wasStopped && isIncomplete && publicStatus(account).active
  // The log does not say of each account that is left out here whether it has a slot. It is seen to when it is let in.
  const isThrottled = localStatus === undefined && throttledAtMs > 0
  // Nothing is logged of an account without a slot: who spoke for it last is written with the cursor behind the event.
  const source = isThrottled && !wasStopped ? '' : sourceId
  return [source, upstreamStatus, localStatus, isThrottled, rev, tree, isMarked].join(' ')
}

function laneOf({ host, did }: Entry): string {
  return `${host.index} ${did}`
}

function placesOf({ index }: SimulatedAccount, host: SimulatedHost): Place[] {
  return [`directory ${index}`, `answers ${host.index}`, `link ${host.index}`, `flood ${host.index}`]
}
