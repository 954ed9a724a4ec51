/**
 * Keeps accounts true and whole beside the events of their hosts: fetches the current commit of those that miss events,
 * does what operators and quotas decide, and asks the hosts of those that no event speaks for.
 *
 * Always holds: nothing here writes to the log but through the pipeline; only the source that may speak for an account
 * is heard; nobody's account waits for somebody else's host. An account keeps its mark until a `#sync` of it was logged, or
 * its host has said that the partial `#sync` which was logged last is of its current commit.
 */
import type { EventLog } from '@tributary/event-log'
import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { Clock } from '../clock.ts'
import { NoAnswerError, type HostInquiry, type InquiryOptions } from '../inquiry/host-inquiry.ts'
import { heldBackUntilMs } from '../pipeline/breaks.ts'
import { hasLeft } from '../pipeline/decide.ts'
import type { Source } from '../sources/source.ts'
import { publicStatus, type Account, type LocalStatus } from '../state/account.ts'
import type { AccountTable } from '../state/account-table.ts'
import type { StateTrail } from '../state/state-trail.ts'
import { AccountSweep, type AccountSweepOptions, type HostWord } from './account-sweep.ts'
import { bringerOf, lastOf, speakerOf, type Sources } from './bringers.ts'
import { Healing } from './healing.ts'
import { LossWalks } from './loss-walks.ts'
import { OpenQuestions } from './open-questions.ts'
import { isDidWeb, PatientShares } from './patient-shares.ts'
import { SecondLooks } from './second-looks.ts'

/** The part of the pipeline that recovery calls. */
export interface RecoveryPipeline {
  /** Takes a `#sync` that the relay made of what the account's host gave it. It is checked like any other. */
  receiveOwn(source: Source, account: Account, frame: Uint8Array, place: number): void
  /** Place of the newest event that came. */
  readonly newest: number
  readonly outcomes: RecoveryOutcomes
}

interface RecoveryOutcomes {
  /** Logs an `#account` of our own, after something other than an event has changed the account. */
  announce(account: Account): void
  /** Notes what a host says of an account. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void
  /** Marks an account of which something of a source was left out, so that its current commit is fetched. */
  markMissing(account: Account, source: Source): void
  /** A document was read: if it names another host than the account's source, the account holds no slot there any more. */
  noteHost(account: Account): void
  /** Forgets an account of which nothing has passed. */
  forget(account: Account): void
}

export interface AccountRecoveryOptions {
  log: EventLog
  accounts: AccountTable
  sources: Sources
  trail: Pick<StateTrail, 'newestSeq' | 'push' | 'storeSource'>
  resolver: IdentityResolver
  inquiry: HostInquiry
  clock: Clock
  /** Something of ours went wrong for one account, which is tried again later. */
  onDefect: (did: Did, error: unknown) => void
}

/** Why the current commit of an account is needed. */
export interface Missing {
  /** Host of the source whose message was left out. It counts among those that wait for this source. */
  cause: string
  /** In milliseconds since 1970. Default: as soon as it is its turn. */
  notBeforeMs?: number
  /** Place of the event that was left out. Default: that of the newest event. */
  place?: number | undefined
  /** No event was left out just now. Then few others give way to the account when there is no room. Default: false. */
  isSwept?: boolean
}

const tickMs = 250
/** How many questions a source may cause in a second, to see whether inactive accounts are back: each host behind a relay one. */
const sweptPerSecond = { pds: 1, relay: 8 }
/** Accounts of a share that may wait for their host only because their source has lost events. */
const askedAfterLossMax = 100

export class AccountRecovery implements Disposable {
  readonly #options: AccountRecoveryOptions
  readonly #shares: PatientShares
  readonly #healing: Healing
  readonly #looks: SecondLooks
  readonly #sweep: AccountSweep
  readonly #walks: LossWalks
  readonly #questions = new OpenQuestions()
  /** Accounts that were asked for after a loss, and for which share they count. Some of them may wait no more. */
  readonly #askedAfterLoss = new Map<Did, string>()
  #pipeline: RecoveryPipeline | undefined
  #timer: Disposable | undefined
  #tickedMs = 0

  constructor(options: AccountRecoveryOptions) {
    this.#shares = new PatientShares({
      kindOf: (cause) => options.sources.byHost(cause)?.policy.kind,
      isRead: (host) => options.sources.byHost(host)?.isWanted === true,
    })
    this.#options = options
    const { accounts, clock, inquiry, resolver, sources, trail, onDefect } = options
    this.#healing = new Healing({
      clock,
      inquiry,
      questions: this.#questions,
      shares: this.#shares,
      onDefect,
      isWanted: (account, cause, host) => this.#isWanted(account, cause, host),
      isNewAt: ({ sourceId }, host) => hasLeft(sources.byId(sourceId), host),
      newest: () => this.#pipeline?.newest ?? 0,
      onCommit: (account, cause, host, frame, place) => {
        const source = speakerOf(sources, account, cause, host)
        if (source) this.#pipeline?.receiveOwn(source, account, frame, place)
      },
      onStatus: (account, cause, host, status) => {
        const source = speakerOf(sources, account, cause, host)
        // The account may have moved since the host was asked.
        const isStill = resolver.peek(account.did)?.pdsHost === host
        if (source && isStill) this.#noteStatus(account, { sourceId: source.id, status })
      },
      onGivenUp: (account, cause) => {
        // Only an account that has passed here stays marked. The source of another one knows it when it is wanted again.
        const isMarked = account.isIncomplete
        const speaker = sources.byId(account.sourceId)
        // A PDS that was removed may be gone. What was left out of its account shows when a relay brings the next commit.
        const isRemoved = speaker?.policy.desired === 'removed' && bringerOf(sources, speaker) !== undefined
        account.isIncomplete = account.sourceId !== 0 && (isMarked || !isRemoved)
        if (account.isIncomplete && !isMarked) trail.push(trail.newestSeq, account)
        this.#lookWhenWanted(account, cause)
        this.#pipeline?.outcomes.noteHost(account)
        this.#pipeline?.outcomes.forget(account)
      },
    })
    this.#looks = new SecondLooks({
      clock,
      resolver,
      onDefect,
      isInactive: (did) => (accounts.get(did)?.upstreamStatus ?? 'active') !== 'active',
      pdsOf: (did) => {
        const speaker = sources.byId(accounts.get(did)?.sourceId ?? 0)
        return speaker?.policy.kind === 'pds' ? speaker.host : undefined
      },
      onRead: (...read) => this.#afterLook(...read),
    })
    this.#sweep = new AccountSweep({
      accounts,
      clock,
      placeOf: (account) => this.#sweptAt(account),
      hostOf: ({ did }) => resolver.peek(did)?.pdsHost ?? (isDidWeb(did) ? 'did:web' : undefined),
      askHost: async (account, mayAsk) =>
        await this.#askHost(account, { cause: this.#hostOf(account), readAfterMs: clock.nowMs() }, mayAsk),
      onStatus: (account, word) => this.#noteStatus(account, word),
      onIncomplete: (account) => {
        if (!this.#healing.has(account.did))
          this.missing(account, { cause: this.#hostOf(account), isSwept: true })
      },
    })
    this.#walks = new LossWalks({
      accounts,
      clock,
      sources: () => sources.sources,
      bringerOf: (source) => bringerOf(sources, source),
      ask: (account, bringer) => this.#askAfterLoss(account, bringer),
      isWaiting: (did) => this.#healing.has(did),
      onFar: (source, lostAtMs, fromDid) => {
        source.noteWalk(lostAtMs, fromDid, trail.newestSeq)
        trail.storeSource(source)
      },
      onOver: (source) => {
        source.endLoss(trail.newestSeq)
        trail.storeSource(source)
      },
    })
  }

  /** Begins to ask hosts, first of all for the accounts that were not whole when the relay stopped. */
  start(pipeline: RecoveryPipeline): void {
    this.#pipeline = pipeline
    this.#tickedMs = this.#options.clock.nowMs()
    for (const source of this.#options.sources.sources) {
      this.#looks.takeUp(source)
      // A kill may have come after the removal of the source, and before the state was stored with what follows from it.
      if (source.policy.desired === 'removed' && source.isPolicyNewer) this.takeOver(source)
    }
    this.#timer = this.#options.clock.every(tickMs, () => {
      this.#followClock()
      this.#healing.tick()
      this.#looks.tick()
      this.#sweep.step()
      this.#walks.step()
    })
    this.#sweep.step()
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    for (const part of [this.#healing, this.#looks, this.#sweep]) part.close()
  }

  /** Work that a clock which was ahead has put off must not wait until the clock is there again. */
  #followClock(): void {
    const backMs = this.#tickedMs - this.#options.clock.nowMs()
    this.#tickedMs -= backMs
    if (backMs <= 0) return
    for (const part of [this.#healing, this.#looks, this.#sweep, this.#walks]) part.setBack(backMs)
  }

  /** Accounts that wait for their host's current commit. */
  get waiting(): number {
    return this.#healing.size
  }

  /**
   * Events of an account were left out here: fetches its host's current commit, and puts it through the pipeline until
   * it was logged.
   * @returns whether it is asked for now. An account beyond that is asked for later, if it keeps its mark.
   */
  missing(account: Account, { cause, notBeforeMs = 0, place, isSwept = false }: Missing): boolean {
    const { resolver, clock, sources } = this.#options
    // First, because documents may have to be read from the disk, and many accounts may be marked.
    if (isSwept && !this.#healing.hasRoomFor(account.did, cause)) return false
    const host = resolver.peek(account.did)?.pdsHost
    // A banned host may have many accounts that write. Not even their documents are read for them. One that waits already
    // is told, because the answer to a question from before the ban may not have what is left out now.
    if (sources.isBanned(host ?? '') && !this.#healing.has(account.did)) {
      account.askedAtMs = clock.nowMs()
      this.#lookWhenWanted(account, cause)
      return false
    }
    const last = lastOf(sources, account)
    const isOwnHost = cause === (last?.host ?? '') && last?.isWanted !== false
    const fromMs = Math.max(notBeforeMs, heldBackUntilMs(account, clock.nowMs()))
    return this.#healing.add(account, { cause, host, isOwnHost, isSwept, notBeforeMs: fromMs, place })
  }

  /**
   * A `#sync` of an account is logged now.
   * @returns whether a marked account misses an event that was left out and that came later, or since the host was asked.
   */
  missesMore({ did, isIncomplete }: Account, sync: { place: number; isOwn: boolean }): boolean {
    return isIncomplete && this.#healing.missesMore(did, sync)
  }

  /** An event says how an account is. What its host answers to an earlier question may be older. */
  heard({ did }: Account): void {
    this.#questions.overtake(did)
  }

  /**
   * An event was left out because the account seemed to be another host's than its sender's. Makes up for it if the
   * document shows within a minute that the account is not where it was, or as soon as the document can be read.
   * @param isContent whether the event was a commit or sync.
   * @param isLong whether the directory may be wrong for longer than a minute. Default false.
   */
  lookAgainAt(account: Account, source: Source, isContent: boolean, isLong?: boolean): void {
    this.#looks.add(account.did, source, isContent, isLong)
  }

  /** A source is wanted again, or a ban was lifted: asks for the accounts that miss events, or may. */
  lookAgain(source?: Source): void {
    if (source) this.#looks.takeUp(source)
    this.#sweep.lookAgain()
  }

  /**
   * A source was removed. What relays forwarded of its accounts lately was left out, because the source was to bring it, and
   * may not have come. What they forwarded before a restart, or while the source was banned, nobody knows any more.
   */
  takeOver(source: Source): void {
    const { id, policy } = source
    const { accounts, clock, sources, trail } = this.#options
    const wanted = [...sources.sources].filter(({ isWanted }) => isWanted)
    for (const relay of wanted)
      for (const did of relay.forwarded) {
        const account = accounts.get(did)
        if (account?.sourceId === id) this.#pipeline?.outcomes.markMissing(account, relay)
      }
    const hasRelay = wanted.some((relay) => relay.policy.kind === 'relay')
    if (policy.kind !== 'pds' || !hasRelay) return
    source.lostAtMs = clock.nowMs()
    // No event moves it any more, so nothing else would store that, and each start would take the removal for new.
    trail.storeSource(source)
  }

  /**
   * Excludes an account, or lifts that. Durable when it resolves.
   * @returns undefined when no event of the account has passed here.
   */
  async setLocalStatus(did: Did, status: LocalStatus | undefined): Promise<Account | undefined> {
    const account = this.#known(did)
    if (!account) return undefined
    if (account.localStatus !== status) {
      account.localStatus = status
      if (status === undefined) this.#markLeftOut(account)
      this.#comeBack(account)
      // Nobody was asked meanwhile, and the host may have said what was left out too: that the account is active again.
      if (status === undefined) this.missing(account, { cause: this.#hostOf(account) })
    }
    await this.#options.log.flush()
    return account
  }

  /**
   * An account is not left out here any more: it has a slot, or its takedown was lifted before a kill. Logs `#account`.
   * The `#sync` of its current commit follows by itself when its host has given that, which may take long and is not waited for.
   */
  async letIn(account: Account): Promise<void> {
    this.#markLeftOut(account)
    this.#comeBack(account)
    await this.#options.log.flush()
  }

  /**
   * Asks the account's host for its status, and applies what changed. A host that is banned, paused or removed is not asked.
   * Undefined when the account is unknown.
   */
  async recheck(did: Did): Promise<Account | undefined> {
    const { clock, log } = this.#options
    const account = this.#known(did)
    if (!account) return undefined
    account.askedAtMs = clock.nowMs()
    const before = account.upstreamStatus
    const word = await this.#askHost(account, { readAfterMs: clock.nowMs() })
    // An event that came meanwhile is newer than the answer, and a relay that stops logs nothing more.
    if (typeof word === 'object' && this.#timer && account.upstreamStatus === before)
      this.#noteStatus(account, word)
    await log.flush()
    return account
  }

  /** Reads the account's DID document again. @throws IdentityError */
  async refreshIdentity(did: Did): Promise<Identity> {
    const { resolver } = this.#options
    resolver.purge(did)
    return await resolver.resolve(did)
  }

  /**
   * An account that has moved, also from a relay to a PDS that is read here too, may miss what its hosts sent on the way.
   * An account that is where it was may have been at the sender for a moment: its host is asked, among those that wait for
   * the sender, and the account is not marked. So a host that has nothing to do with the account changes nothing. An account
   * that comes by the sender, which is a relay, may have a status by now that was left out.
   */
  #afterLook({ did, pdsHost }: Identity, source: Source, isContent: boolean): void {
    const { accounts, sources } = this.#options
    const account = accounts.take(did)
    const speaker = sources.byId(account.sourceId)
    const isReadDirectly = sources.byHost(pdsHost ?? '')?.isWanted === true
    const isFromRelay = speaker?.policy.kind === 'relay' && isReadDirectly
    // Nobody has spoken for the account: it is new, and came while its host, or the relay that brings it, was not wanted.
    const isNew = source.host === pdsHost || (source.policy.kind === 'relay' && !isReadDirectly)
    const isElsewhere = speaker ? hasLeft(speaker, pdsHost) || isFromRelay : isNew
    if (isElsewhere || account.isIncomplete) this.#pipeline?.outcomes.markMissing(account, source)
    else if (speaker && (isContent || this.#isForwarded(source, speaker, pdsHost)))
      this.missing(account, { cause: source.host })
    this.#pipeline?.outcomes.forget(account)
  }

  /** Whether a relay spoke for an account last, and may go on. */
  #isForwarded(source: Source, speaker: Source, host = ''): boolean {
    const isReadDirectly = this.#options.sources.byHost(host)?.isWanted === true
    return speaker === source && source.policy.kind === 'relay' && !isReadDirectly
  }

  /** @returns false when there is no room: accounts that are known to miss something come first. */
  #askAfterLoss(account: Account, source: Source): boolean {
    const { resolver, sources } = this.#options
    const { did } = account
    const { host: cause } = source
    const host = resolver.peek(did)?.pdsHost
    const share = this.#shares.of({ did, cause, host }).at(-1)?.name ?? cause
    const wasWaiting = this.#healing.has(did)
    const hasRoom = wasWaiting || this.#askedAfterLossOf(share) < askedAfterLossMax
    if (hasRoom && this.missing(account, { cause, isSwept: true })) {
      if (!wasWaiting) this.#askedAfterLoss.set(did, share)
      return true
    }
    if (sources.isBanned(host ?? '')) return true
    if (share === cause || !this.#healing.hasRoomFor(did, cause)) return false
    // Only accounts of this host have to wait, and those of others must not wait for them: the sweep asks for it later.
    this.#pipeline?.outcomes.markMissing(account, source)
    return true
  }

  /** Accounts of a share that were asked for after a loss and wait for their host. */
  #askedAfterLossOf(share: string): number {
    let count = 0
    for (const [did, of] of this.#askedAfterLoss)
      if (!this.#healing.has(did)) this.#askedAfterLoss.delete(did)
      else if (of === share) count++
    return count
  }

  /** The status that the account's host gives, if it may be asked, answers, and a source that is wanted may bring that. */
  async #askHost(
    account: Account,
    options: InquiryOptions,
    mayAsk: (host: string) => boolean = () => true,
  ): Promise<HostWord | 'unasked' | undefined> {
    const { inquiry, sources, onDefect } = this.#options
    using question = this.#questions.begin(account.did)
    try {
      const identity = await inquiry.locate(account.did, options)
      this.#pipeline?.outcomes.noteHost(account)
      const source = speakerOf(sources, account, '', identity.pdsHost)
      if (!source) return undefined
      if (!mayAsk(identity.pdsHost)) return 'unasked'
      const status = await inquiry.statusAt(identity)
      // An operator may have decided otherwise while the host was asked.
      const isStill = speakerOf(sources, account, '', identity.pdsHost) === source
      const isNewest = isStill && !question.isOvertaken
      return isNewest && status !== undefined ? { status, sourceId: source.id } : undefined
    } catch (error) {
      if (!(error instanceof NoAnswerError)) onDefect(account.did, error)
      return undefined
    }
  }

  /** Takes the answer of the account's host. */
  #noteStatus(account: Account, { status, sourceId }: HostWord): void {
    if (status === account.upstreamStatus && !account.hasDeparted) return
    const { accounts, sources } = this.#options
    const [source, before] = [sources.byId(sourceId), sources.byId(account.sourceId)]
    const isElsewhere = before !== undefined && before !== source
    const hasMoved = hasLeft(before, source?.host)
    if (hasMoved && !accounts.hasPlaceFor(sourceId, status === 'active')) return
    // The directory may have said something old, and the account's host may say nothing more. Then its relay goes on.
    if (source && isElsewhere) this.#looks.add(account.did, source, false, true)
    this.#pipeline?.outcomes.assign(account, sourceId, status)
    if (isElsewhere && before.policy.kind === 'relay') account.namedBy = before.id
    this.#comeBack(account)
  }

  /** What an account sent that we left out is missing, also when its host says only later that it is active. */
  #markLeftOut(account: Account): void {
    account.isDesynchronized = account.isIncomplete = true
  }

  /** Says what the account is now. Who is active again may have written meanwhile, which consumers need to know. */
  #comeBack(account: Account): void {
    const { active } = publicStatus(account)
    if (active) account.isDesynchronized = account.isIncomplete = true
    this.#pipeline?.outcomes.announce(account)
    if (active) this.missing(account, { cause: this.#hostOf(account) })
  }

  #known(did: Did): Account | undefined {
    const account = this.#options.accounts.get(did)
    // A takedown may be all that is known of an account, after its state was built again.
    return account?.sourceId === 0 && account.localStatus === undefined ? undefined : account
  }

  /** Host of the source that spoke for the account last. Empty when none has. */
  #hostOf(account: Account): string {
    return lastOf(this.#options.sources, account)?.host ?? ''
  }

  /** An event of an unknown account is forgotten. Its source, or its host, brings it in when wanted again, also after a kill. */
  #lookWhenWanted(account: Account, cause: string): void {
    const { resolver, sources, trail } = this.#options
    const { did, sourceId } = account
    const named = sourceId === 0 ? [cause, this.#hostOf(account), resolver.peek(did)?.pdsHost ?? ''] : []
    const source = named.map((host) => sources.byHost(host)).find((each) => each?.isWanted === false)
    if (!source) return
    this.#looks.add(did, source, true)
    trail.storeSource(source)
  }

  #isWanted(account: Account, cause: string, host: string | undefined): boolean {
    const { sources } = this.#options
    // While we leave the account out, a commit of it is of no use. The host that it has moved to may have a slot for it.
    const { localStatus, throttledAtMs, sourceId } = account
    const isStill = host !== undefined && !hasLeft(sources.byId(sourceId), host)
    if (localStatus !== undefined || (throttledAtMs > 0 && isStill)) return false
    // After a restart nobody knows any more which source has named it. Its document says which one may.
    const isOrphan = account.sourceId === 0 && cause === ''
    if (isOrphan && host === undefined) return true
    return speakerOf(sources, account, cause, host) !== undefined
  }

  #sweptAt(account: Account): ReturnType<AccountSweepOptions['placeOf']> {
    const source = this.#options.sources.byId(account.sourceId)
    if (!source?.isWanted) return undefined
    const { kind } = source.policy
    return { name: source.host, perSecond: sweptPerSecond[kind], isShared: kind === 'relay' }
  }
}
