import type { Did } from '@tributary/protocol'
import { SharedPlaces } from '@tributary/rates'
import type { Clock } from '../clock.ts'
import type { Account } from '../state/account.ts'
import type { AccountTable } from '../state/account-table.ts'

export interface AccountSweepOptions {
  accounts: Pick<AccountTable, 'exceptional'>
  clock: Clock
  /** The place that is asked for an account. Undefined when nobody is to be asked. */
  placeOf: (account: Account) => Place | undefined
  /** The host of an account at a shared place, as far as is known. The document may be read from the disk for it. */
  hostOf: (account: Account) => string | undefined
  /**
   * Asks the host of an account for its word; undefined when it does not answer.
   * @param mayAsk whether the host has a turn, to be called when the document was read. `unasked` when it has none.
   */
  askHost: (account: Account, mayAsk: (host: string) => boolean) => Promise<HostWord | 'unasked' | undefined>
  /** The host has said twice that the account is not what it is known to be. */
  onStatus: (account: Account, word: HostWord) => void
  /** Told of each account that misses events at start, and again each hour while it does and is active. */
  onIncomplete: (account: Account) => void
}

/** What a host says of an account, and the source that may bring this. */
export interface HostWord {
  status: string
  sourceId: number
}

/** Where questions go because of a source. */
interface Place {
  name: string
  /** Questions that may go there in a second, and be under way. */
  perSecond: number
  /** Many hosts are asked there: each has one turn in a second, and one question under way. */
  isShared: boolean
}

/** How often an account is looked after, at most: an inactive one, and one that misses events. */
const everyMs = { inactive: 86_400_000, incomplete: 3_600_000 }
/** Accounts that are looked at in one go. */
const stepMax = 10_000
/** Of these, accounts that are handed on, or whose host is looked up: for each of them its document may be read from the disk. */
const documentsMax = 200
/**
 * Most questions under way, and most accounts whose news are to be confirmed. Further ones come in a later round. The turns
 * bound the news of a PDS, or of a host behind a relay, to 60, because its news that are due take its turns first. When many
 * hosts have that many, hosts with fewer take places of theirs.
 */
const askedMax = 32
const newsMax = 2000
/** From an answer that says something new to the question whether that is still so. */
const confirmMs = 60_000

/** What a host said first of an account that was known to be otherwise. */
interface News {
  account: Account
  known: string
  status: string
  dueMs: number
}

/** Questions to one place, or to one host of a shared place, within the second that began then. */
interface Asked {
  sinceMs: number
  count: number
  underWay: number
}

/**
 * Goes through all accounts again and again, for what no event tells.
 *
 * Accounts that miss events and wait for nobody are handed on, because there was no room for them, or their host gave
 * nothing for long, or their source was not wanted. After a start inactive accounts are handed on, too: the host that an
 * account has moved to may have been asked for it when the relay stopped, and only that host calls it active.
 *
 * The hosts of inactive accounts are asked whether they are back, once a day at most and side by side: the event that
 * said so can have been missed, and an account that does not write gives no other reason to ask. Deleted accounts are
 * asked for when they write again. Each hour the host is asked, too, whether an account without a slot that misses events is
 * still active: what it misses may be its change of status. Of the turns that a relay has, a host behind it has one a second,
 * like a PDS that is read directly. So one that hangs, and has many accounts, does not take the turns of other hosts.
 *
 * A host answers before its events are here. So what it says counts when it says the
 * same a minute later and no event has come: otherwise an account that is just coming back would be announced ahead of
 * its own events, and its current commit would take the place of commits that are on their way.
 */
export class AccountSweep {
  readonly #options: AccountSweepOptions
  /** What is to be asked once more, oldest first. */
  readonly #news = new Map<Did, News>()
  /** Who has how many of them: a PDS that is read, or a host behind a relay. */
  readonly #newsPlaces = new SharedPlaces<Did>()
  readonly #asked = new Map<string, Asked>()
  /** Where the next step goes on among all accounts. */
  #next = 0
  /** Accounts whose host is being asked. */
  readonly #underWay = new Set<Did>()
  /** Documents that were looked up in this step. */
  #documents = 0
  /** Every account that misses events is handed on, until all have been looked at. */
  #isForAll = true
  #isClosed = false

  constructor(options: AccountSweepOptions) {
    this.#options = options
  }

  /** Begins again with the first account, because something made it worth while to ask for all that miss events. */
  lookAgain(): void {
    this.#next = 0
    this.#isForAll = true
  }

  close(): void {
    this.#isClosed = true
  }

  /** The clock was set back. */
  setBack(ms: number): void {
    for (const news of this.#news.values()) news.dueMs -= ms
    for (const asked of this.#asked.values()) asked.sinceMs -= ms
  }

  /** Looks at the next accounts. */
  step(): void {
    const nowMs = this.#options.clock.nowMs()
    for (const [name, { sinceMs, underWay }] of this.#asked)
      if (underWay === 0 && nowMs - sinceMs >= 1000) this.#asked.delete(name)
    this.#confirm(nowMs)
    // Accounts whose news are to be confirmed are few, and their documents were read a minute ago. They do not slow the others.
    this.#documents = 0
    const { found, next } = this.#options.accounts.exceptional(this.#next, stepMax)
    for (const account of found) {
      this.#lookAt(account, nowMs)
      if (this.#documents < documentsMax) continue
      this.#next = account.row + 1
      return
    }
    this.#next = next ?? 0
    if (next === undefined) this.#isForAll = false
  }

  #lookAt(account: Account, nowMs: number): void {
    const { upstreamStatus, sourceId, isIncomplete, throttledAtMs } = account
    // Below 0 the clock was set back since.
    const unaskedMs = account.askedAtMs > nowMs ? Infinity : nowMs - account.askedAtMs
    const isActive = upstreamStatus === 'active'
    const isDue = isActive && unaskedMs > everyMs.incomplete
    // Its commits are not asked for, so nothing else shows that it is inactive by now. Who is handed on counts as asked.
    const isTurn = !isIncomplete || !isDue || throttledAtMs === 0 || this.#askUnlessNews(account, nowMs)
    if (isIncomplete && (this.#isForAll || (isDue && isTurn))) {
      this.#documents++
      this.#options.onIncomplete(account)
    } else if (!isActive && upstreamStatus !== 'deleted' && sourceId !== 0 && unaskedMs > everyMs.inactive)
      this.#askUnlessNews(account, nowMs)
  }

  #askUnlessNews(account: Account, nowMs: number): boolean {
    return this.#news.has(account.did) || this.#ask(account, nowMs)
  }

  #confirm(nowMs: number): void {
    for (const [did, { account, known, dueMs }] of this.#news) {
      if (dueMs > nowMs) return
      if (account.upstreamStatus !== known || !this.#options.placeOf(account)) this.#forgetNews(did)
      else this.#ask(account, nowMs)
    }
  }

  /** Asks the host of an account, if it may be asked now. @returns false when there is no room for the question yet. */
  #ask(account: Account, nowMs: number): boolean {
    const place = this.#options.placeOf(account)
    if (!place || this.#underWay.has(account.did)) return true
    if (this.#underWay.size >= askedMax) return false
    const turn = this.#take(place.name, place.perSecond, nowMs)
    if (!turn) return false
    if (place.isShared) this.#documents++
    const host = place.isShared ? this.#options.hostOf(account) : undefined
    const ofHost = host === undefined ? undefined : this.#takeOfHost(place, host, nowMs)
    if (host !== undefined && !ofHost) {
      turn.count--
      turn.underWay--
      return false
    }
    const turns = [turn, ...(ofHost ? [ofHost] : [])]
    let asked = host ?? place.name
    const mayAsk = (located: string): boolean => {
      if (!place.isShared || located === host) return true
      asked = located
      const taken = this.#takeOfHost(place, located, this.#options.clock.nowMs())
      if (taken) turns.push(taken)
      return taken !== undefined
    }
    this.#underWay.add(account.did)
    void this.#hear(account, mayAsk, () => asked).finally(() => {
      for (const taken of turns) taken.underWay--
      this.#underWay.delete(account.did)
    })
    return true
  }

  #takeOfHost({ name }: Place, host: string, nowMs: number): Asked | undefined {
    return this.#take(`${name} ${host}`, 1, nowMs)
  }

  /** Takes a turn. Undefined when there is none. */
  #take(name: string, perSecond: number, nowMs: number): Asked | undefined {
    const asked = this.#asked.get(name) ?? { sinceMs: nowMs, count: 0, underWay: 0 }
    if (nowMs - asked.sinceMs >= 1000) Object.assign(asked, { sinceMs: nowMs, count: 0 })
    if (asked.count >= perSecond || asked.underWay >= perSecond) return undefined
    this.#asked.set(name, asked)
    asked.count++
    asked.underWay++
    return asked
  }

  /** @param whom whose answer it is. */
  async #hear(account: Account, mayAsk: (host: string) => boolean, whom: () => string): Promise<void> {
    const { clock, askHost, placeOf, onStatus } = this.#options
    const known = account.upstreamStatus
    const saidBefore = this.#news.get(account.did)?.status
    const word = await askHost(account, mayAsk)
    // It comes again in a later round, and its host is known then.
    if (word === 'unasked') return
    this.#forgetNews(account.did)
    // An event that came meanwhile is newer than the answer.
    const isNews = word && word.status !== known && account.upstreamStatus === known
    const isHeard = isNews && !this.#isClosed && placeOf(account) !== undefined
    const isConfirmed = isHeard && word.status === saidBefore
    const mustConfirm = isHeard && !isConfirmed && this.#makeRoomForNews(whom())
    // What must be confirmed is not noted as asked: an event of the account is a reason to ask before that.
    if (!mustConfirm) account.askedAtMs = clock.nowMs()
    else {
      this.#news.set(account.did, { account, known, status: word.status, dueMs: clock.nowMs() + confirmMs })
      this.#newsPlaces.add(whom(), account.did)
    }
    if (isConfirmed) onStatus(account, word)
  }

  /** Makes room for news, if need be from whoever has most of them. @returns whether there is room. */
  #makeRoomForNews(whom: string): boolean {
    if (this.#news.size < newsMax) return true
    const last = this.#newsPlaces.givingWayTo(whom)
    const news = last && this.#news.get(last)
    if (!news) return false
    news.account.askedAtMs = this.#options.clock.nowMs()
    this.#forgetNews(news.account.did)
    return true
  }

  #forgetNews(did: Did): void {
    this.#news.delete(did)
    this.#newsPlaces.delete(did)
  }
}
