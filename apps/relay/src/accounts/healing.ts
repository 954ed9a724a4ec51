/**
 * Makes up for events that were left out: fetches the current commit of an account from its host and puts it through
 * the pipeline as a `#sync`, again until that has been logged. A discontinuity alone is no reason to; that is for the
 * account's host to heal.
 */
import { IdentityError } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { Clock } from '../clock.ts'
import type { CurrentCommit } from '../inquiry/host-answers.ts'
import { NoAnswerError, type HostedIdentity, type HostInquiry } from '../inquiry/host-inquiry.ts'
import type { Account } from '../state/account.ts'
import { AskQueue, type Outcome, type Waiting } from './ask-queue.ts'
import { DueList } from './due-list.ts'
import type { OpenQuestions } from './open-questions.ts'
import { isDidWeb, type PatientShares, type Share, type Standing } from './patient-shares.ts'

export interface HealingOptions {
  clock: Clock
  inquiry: Pick<HostInquiry, 'locate' | 'currentCommit' | 'statusAt'>
  questions: Pick<OpenQuestions, 'begin'>
  /** How many accounts may wait because of whom. */
  shares: PatientShares
  /** Whether the commit of an account is of use now. @param host the account's host, where that is known. */
  isWanted: (account: Account, cause: string, host?: string) => boolean
  /** Whether another PDS than this host spoke for the account last. */
  isNewAt: (account: Account, host: string) => boolean
  /** Place of the newest event that came. */
  newest: () => number
  /**
   * Puts a `#sync` through the pipeline, which takes `isIncomplete` off the account when it is logged and `missesMore` says
   * no. @param place of the newest event when the host was asked.
   */
  onCommit: (account: Account, cause: string, host: string, frame: Uint8Array, place: number) => void
  /** The host says of the account what it did not say before: that it is not active, or is active again. */
  onStatus: (account: Account, cause: string, host: string, status: string) => void
  /**
   * The account is not waited for any more, and was not made whole.
   * @param cause the source that it was waited for; empty when a restart has forgotten it.
   */
  onGivenUp: (account: Account, cause: string) => void
  /** Something of ours went wrong for one account, which is tried again. */
  onDefect: (did: Did, error: unknown) => void
}

/** From one attempt to the next: its answer was of no use, or it has to be seen that it was the newest. */
const retryMs = { first: 1000, max: 3_600_000 }
const attemptsMax = 30
/**
 * Attempts, within 50 to 90 minutes, after which a patient gives way to an account that a sweep or a walk adds. So
 * all accounts that miss events have a turn when there is no room for them together. An account of which an event was left
 * out just now need not wait for that, because nobody knows whether it is asked for again and again for nothing.
 */
const turnAttempts = 12
/** Patients that are looked at for one that gives way. */
const lookedAtMax = 8
/**
 * Attempts, within some four minutes, after which a host is believed that it does not know an account, a document that
 * names no host, or one from which no source may bring anything, and the directory that there is no document.
 */
const believedAfter = 8
/**
 * A document that cannot be read, and an event that its host sent and that was left out, let no more attempts than this
 * count, so that the next comes within a minute.
 */
const soonAttemptsMax = 6
/** A host that gives no answer for this long is not asked any more for a while. */
const silentMsMax = 3_600_000
/**
 * A host answers with commits whose events are still on their way: a PDS looks for events to send every second at
 * least. Passed on at once, the answer would take their place, and they would be refused for coming too late. So an
 * answer that is ahead of what was passed on is held for this long.
 */
const settleMs = 2000

interface Patient extends Waiting {
  account: Account
  attempts: number
  /** The DID document is read after this moment. */
  readAfterMs: number
  /** More was left out since the host was asked, which the answer may not have. */
  isMoreMissing: boolean
  /** Place of the newest event that was left out. */
  missingPlace: number
  /** Who the account's host is, once that was read. */
  identity: HostedIdentity | undefined
  /** The host that the document named when it was read last. */
  pdsHost: string | undefined
  /** Where it counts. */
  shares: readonly Share[]
  /** It was added by a sweep or a walk. */
  isSwept: boolean
  /** Another source that missed something of the account. It is the cause when the first one is not wanted any more. */
  otherCause: string | undefined
}

/** What the host of a patient gave. */
interface Held {
  patient: Patient
  host: string
  commit: CurrentCommit
  /** Place of the newest event when the host was asked. */
  place: number
}

export class Healing {
  readonly #options: HealingOptions
  readonly #patients = new Map<Did, Patient>()
  readonly #queue = new AskQueue<Patient>()
  /** Answers that are held. */
  readonly #held = new DueList<Held>()
  #isClosed = false

  constructor(options: HealingOptions) {
    this.#options = options
  }

  /** Accounts that wait for their host. */
  get size(): number {
    return this.#patients.size
  }

  has(did: Did): boolean {
    return this.#patients.has(did)
  }

  /** Whether a sweep may add an account because of a source, as far as that depends on no host of the account. */
  hasRoomFor(did: Did, cause: string): boolean {
    const { shares } = this.#options
    const ofCause = shares.ofCause(cause)
    return this.#patients.has(did) || !shares.isFull(ofCause) || this.#givingWay(ofCause, true) !== undefined
  }

  /**
   * Fetches the current commit of an account as soon as it is its turn, and again until it has been logged.
   * @param options.host that the account's document names, if that is known.
   * @param options.isOwnHost whether the cause is the source that speaks for the account: then the account waits among its.
   * @param options.isSwept whether no event was left out just now. Then few others give way to the account. Default false.
   * @param options.place of the event that was left out. Default: of the newest event.
   * @returns false when too many are waited for.
   */
  add(
    account: Account,
    options: {
      cause: string
      host?: string | undefined
      isOwnHost: boolean
      notBeforeMs: number
      isSwept?: boolean
      place?: number | undefined
    },
  ): boolean {
    const { cause, host, isOwnHost, isSwept = false, notBeforeMs } = options
    const { place = this.#options.newest() } = options
    const nowMs = this.#options.clock.nowMs()
    const known = this.#patients.get(account.did)
    if (known) {
      // The commit that was put through last has made the account whole: this is about something new.
      if (!account.isIncomplete) this.#beginAgain(known)
      known.isMoreMissing = true
      known.isSwept &&= isSwept
      known.missingPlace = Math.max(known.missingPlace, place)
      // The account may have moved since the document was read.
      known.readAfterMs = nowMs
      known.identity = undefined
      if (known.cause !== cause) {
        const otherCause = isOwnHost ? known.cause : cause
        if (isOwnHost) this.#changeCause(known, cause)
        known.otherCause = otherCause
      }
      if (isOwnHost) this.#makeSoon(known, notBeforeMs)
      return true
    }
    const shares = this.#options.shares.of({ did: account.did, cause, host })
    if (!this.#makeRoom(shares, isSwept)) return false
    const patient: Patient = {
      account,
      cause,
      host: documentsOf(shares),
      dueMs: Math.max(nowMs, notBeforeMs),
      attempts: 0,
      readAfterMs: nowMs,
      isMoreMissing: true,
      missingPlace: place,
      identity: undefined,
      pdsHost: host,
      shares,
      isSwept,
      otherCause: undefined,
    }
    this.#patients.set(account.did, patient)
    this.#options.shares.count(shares, 1)
    this.#enqueue(patient)
    // The caller says first that something is missing.
    queueMicrotask(() => this.tick())
    return true
  }

  /**
   * A `#sync` of an account is logged now: its host sent it, or gave its commit when we asked.
   * @returns whether more was left out that came later, or since the host was asked. It is asked again as soon as after a
   * first attempt.
   */
  missesMore(did: Did, { place, isOwn }: { place: number; isOwn: boolean }): boolean {
    const patient = this.#patients.get(did)
    if (!patient) return false
    const isOlder = place < patient.missingPlace
    if (!isOwn) return isOlder
    // The host may have been asked once more since the question that is answered here.
    if (!patient.isMoreMissing && !isOlder) return false
    patient.attempts = 0
    if (this.#dequeue(patient)) this.#put(patient, this.#options.clock.nowMs() + retryMs.first)
    return true
  }

  /** The clock was set back. */
  setBack(ms: number): void {
    this.#queue.setBack(ms, this.#options.clock.nowMs())
    this.#held.setBack(ms)
  }

  /** Does what is due. */
  tick(): void {
    const nowMs = this.#options.clock.nowMs()
    while (!this.#isClosed) {
      const held = this.#held.take(nowMs)
      if (!held) break
      this.#put(held.patient, this.#passOn(held))
    }
    while (!this.#isClosed) {
      const patient = this.#queue.take(nowMs)
      if (!patient) return
      this.#options.shares.unlist(patient.account.did, patient.shares)
      void this.#attend(patient)
    }
  }

  close(): void {
    this.#isClosed = true
  }

  /** One question, or one look at the document, for a patient that has its places. */
  async #attend(patient: Patient): Promise<void> {
    const host = patient.identity?.pdsUrl
    let outcome: Outcome = host === undefined ? 'unasked' : 'answered'
    let dueMs: number | undefined
    try {
      dueMs = await this.#next(patient)
    } catch (error) {
      if (!(error instanceof NoAnswerError)) this.#options.onDefect(patient.account.did, error)
      outcome = error instanceof NoAnswerError && error.isHostSilent ? 'silent' : 'unasked'
      dueMs = this.#afterFault(patient, error instanceof NoAnswerError ? error : undefined)
    }
    const nowMs = this.#options.clock.nowMs()
    this.#queue.release(patient, outcome, nowMs)
    if (host !== undefined && this.#queue.silentMs(host, nowMs) > silentMsMax)
      for (const each of [patient, ...this.#queue.removeDue(host)]) this.#giveUp(each)
    else if (dueMs !== undefined) this.#put(patient, dueMs)
    this.tick()
  }

  /** @returns when the patient is due again. Undefined when it is held, or not waited for any more. */
  async #next(patient: Patient): Promise<number | undefined> {
    const { account, attempts, cause, identity } = patient
    const { isWanted, isNewAt } = this.#options
    const host = identity?.pdsHost
    const isUseless = !isWanted(account, cause, host)
    if (!account.isIncomplete && !patient.isMoreMissing) {
      // The answer may wait for an earlier event of the account.
      if (account.underWay > 0) return this.#options.clock.nowMs() + retryMs.first
      this.#remove(patient)
    } else if (isUseless && patient.otherCause !== undefined) {
      this.#changeCause(patient, patient.otherCause)
      return this.#options.clock.nowMs()
    }
    // A host from which nobody may bring anything may be named by mistake.
    else if (isUseless && host !== undefined && isNewAt(account, host) && attempts < believedAfter)
      return this.#afterAnswer(patient)
    else if (isUseless || attempts >= attemptsMax) this.#giveUp(patient)
    else if (identity) return await this.#ask(patient, identity)
    else {
      const { clock, inquiry } = this.#options
      patient.identity = await inquiry.locate(account.did, { cause, readAfterMs: patient.readAfterMs })
      if (this.#countAt(patient, patient.identity.pdsHost)) return clock.nowMs()
      this.#giveUp(patient)
    }
    return undefined
  }

  async #ask(patient: Patient, identity: HostedIdentity): Promise<number | undefined> {
    const { account, attempts, cause } = patient
    const { clock, inquiry, questions, onStatus, isWanted, isNewAt } = this.#options
    const host = identity.pdsHost
    using question = questions.begin(account.did)
    const before = account.upstreamStatus
    patient.isMoreMissing = false
    const place = this.#options.newest()
    const commit = await inquiry.currentCommit(identity)
    // A host that gives no commit says why; one that gives it may not have said that the account is back.
    const isTold = commit !== undefined && before === 'active'
    const said = isTold ? before : await inquiry.statusAt(identity)
    // A host that does not know the account may be getting it just now, or is named by mistake.
    const mayBeNew = isNewAt(account, host) && attempts < believedAfter
    const status = said === 'deleted' && mayBeNew ? undefined : said
    const isHeard = !this.#isClosed && isWanted(account, cause, host)
    // An event that came meanwhile is newer than the answer.
    const isStill = account.upstreamStatus === before && !question.isOvertaken
    const isNews = status !== undefined && status !== before && isStill
    const { isMoreMissing, missingPlace } = patient
    if (isNews && isHeard) onStatus(account, cause, host, status)
    // That an account is back marks it, and the answer is of now.
    Object.assign(patient, { isMoreMissing, missingPlace })
    const isAway = status !== undefined && status !== 'active'
    // When it is active again its commit is asked for again. An event that came meanwhile may be older than what was left
    // out, if it had to wait here: then the host is asked again.
    if (isAway && (status === account.upstreamStatus || !isHeard)) this.#giveUp(patient)
    else if (!commit || isAway) {
      // Also an account without a mark is asked for again: its host gave nothing that makes up for what is missing.
      patient.isMoreMissing = true
      return this.#afterAnswer(patient)
    } else if (commit.rev <= (account.rev ?? '')) return this.#passOn({ patient, host, commit, place })
    else this.#held.add({ patient, host, commit, place }, clock.nowMs() + settleMs)
    return undefined
  }

  /** Puts the host's answer through the pipeline. @returns when it is seen whether that was enough. */
  #passOn({ patient, host, commit, place }: Held): number {
    const { account, cause } = patient
    const { rev, frame } = commit
    // A host whose answer is older than what has passed was set back, or is not up to date.
    const isNew = rev >= (account.rev ?? '')
    const isHeard = isNew && !this.#isClosed && this.#options.isWanted(account, cause, host)
    // The account still misses something when its source was paused meanwhile, and when a newer commit passed that does not
    // continue what was known.
    if (isNew ? !isHeard : account.isDesynchronized) patient.isMoreMissing = true
    const dueMs = this.#afterAnswer(patient)
    if (isHeard) this.#options.onCommit(account, cause, host, frame, place)
    return patient.attempts === 0 ? this.#options.clock.nowMs() + retryMs.first : dueMs
  }

  /** @returns when the host is asked again, unless the account is whole by then. */
  #afterAnswer(patient: Patient): number {
    const waitMs = Math.min(retryMs.max, retryMs.first * 2 ** patient.attempts++)
    return this.#startAnew(patient) + waitMs * (0.75 + Number(patient.account.logId % 500n) / 1000)
  }

  /**
   * @returns when the patient comes again after a document could not be read, or a host gave no answer. Undefined when it is
   * not waited for any more.
   */
  #afterFault(patient: Patient, error: NoAnswerError | undefined): number | undefined {
    // Whatever made the account a patient has not been made up for, also when the account bears no mark.
    patient.isMoreMissing = true
    // A silent host rests: the patient waits for that among the others of the host.
    if (error?.isHostSilent === true) return this.#startAnew(patient)
    const isUnread = error?.cause instanceof IdentityError && error.cause.retryable
    if (error && !patient.identity && !this.#mayWaitUnlocated(patient, isUnread)) {
      this.#giveUp(patient)
      return undefined
    }
    if (isUnread) this.#makeSoon(patient, 0)
    const dueMs = this.#afterAnswer(patient)
    return Math.max(dueMs, this.#options.clock.nowMs() + (error?.retryAfterMs ?? 0))
  }

  /** @param isUnread the document may be read later. Otherwise there is none, or it names no host. */
  #mayWaitUnlocated(patient: Patient, isUnread: boolean): boolean {
    if (!isUnread) return patient.attempts < believedAfter
    // The document that was known does not count any more, and the account's owner may see to it that no other comes.
    return !isDidWeb(patient.account.did) || this.#countAt(patient, undefined)
  }

  /** The next attempt reads the document again, for the account may have moved. @returns the time now. */
  #startAnew(patient: Patient): number {
    patient.identity = undefined
    patient.readAfterMs = this.#options.clock.nowMs()
    return patient.readAfterMs
  }

  #put(patient: Patient, dueMs: number): void {
    if (this.#patients.get(patient.account.did) !== patient) return
    patient.dueMs = dueMs
    // By its whole origin: documents may name a host in another way, such as without TLS, in which it gives no answer.
    patient.host = patient.identity?.pdsUrl ?? documentsOf(patient.shares)
    this.#enqueue(patient)
  }

  #enqueue(patient: Patient): void {
    const { account, shares } = patient
    this.#queue.put(patient)
    this.#options.shares.list(account.did, shares, this.#standingOf(patient))
  }

  /** No attempt was in vain for what the patient misses now. */
  #beginAgain(patient: Patient): void {
    patient.attempts = 0
    if (this.#dequeue(patient)) this.#enqueue(patient)
  }

  /** False when it was not in the queue. */
  #dequeue(patient: Patient): boolean {
    this.#options.shares.unlist(patient.account.did, patient.shares)
    return this.#queue.remove(patient)
  }

  #standingOf({ attempts, dueMs, host }: Patient): Standing {
    const nowMs = this.#options.clock.nowMs()
    if (attempts > 0 || dueMs > nowMs + settleMs) return 'fruitless'
    return this.#queue.silentMs(host, nowMs) > 0 ? 'silent' : 'fresh'
  }

  /** The patient that gives way to a newcomer. @param isSwept whether a sweep or a walk brings it. */
  #givingWay(shares: readonly Share[], isSwept: boolean): Patient | undefined {
    const did = this.#options.shares.givingWayTo(shares)
    const patient = did && this.#patients.get(did)
    return isSwept && (patient?.attempts ?? 0) < turnAttempts ? undefined : patient
  }

  /** Gives up patients, if need be, for one that is to count for these. @returns whether there is room. */
  #makeRoom(shares: readonly Share[], isSwept: boolean): boolean {
    for (let left = lookedAtMax; left > 0 && this.#options.shares.isFull(shares); left--) {
      const patient = this.#givingWay(shares, isSwept)
      if (!patient) return false
      const { account, isMoreMissing } = patient
      const isWaiting = this.#dequeue(patient)
      // When its `#sync` is logged that is on its way, it has to be known whether that makes it whole.
      if (account.underWay > 0 && isWaiting) this.#enqueue(patient)
      else if (account.isIncomplete || isMoreMissing) this.#giveUp(patient)
      else this.#remove(patient)
    }
    return !this.#options.shares.isFull(shares)
  }

  /** The next attempt, and the one after it, come within a minute each, however many there were. */
  #makeSoon(patient: Patient, notBeforeMs: number): void {
    patient.attempts = Math.min(patient.attempts, soonAttemptsMax - 1)
    const pauseMs = retryMs.first * 2 ** patient.attempts
    const soonMs = Math.max(this.#options.clock.nowMs() + pauseMs, notBeforeMs)
    if (patient.dueMs > soonMs && this.#dequeue(patient)) this.#put(patient, soonMs)
  }

  /** The account waits among those of its own source from now on, and not among those that others brought in. */
  #changeCause(patient: Patient, cause: string): void {
    const isQueued = this.#dequeue(patient)
    patient.cause = cause
    patient.otherCause = undefined
    this.#setShares(patient, this.#sharesOf(patient))
    if (isQueued) this.#put(patient, patient.dueMs)
  }

  /** False when the patient is not waited for any more. */
  #remove(patient: Patient): boolean {
    const { account, shares } = patient
    if (this.#patients.get(account.did) !== patient) return false
    this.#patients.delete(account.did)
    this.#options.shares.unlist(account.did, shares)
    this.#options.shares.count(shares, -1)
    return true
  }

  #giveUp(patient: Patient): void {
    const { account, cause } = patient
    // An account that waits at a stop is asked for after the next start.
    if (this.#isClosed || !this.#remove(patient)) return
    account.askedAtMs = this.#options.clock.nowMs()
    this.#options.onGivenUp(account, cause)
  }

  /** The patient counts at the host that its document names, if that is known. @returns false when too many wait there. */
  #countAt(patient: Patient, host: string | undefined): boolean {
    if (patient.pdsHost === host) return true
    patient.pdsHost = host
    const shares = this.#sharesOf(patient)
    const others = shares.filter(({ name }) => patient.shares.every((share) => share.name !== name))
    if (!this.#makeRoom(others, patient.isSwept)) return false
    this.#setShares(patient, shares)
    return true
  }

  #sharesOf({ account, cause, pdsHost }: Patient): Share[] {
    return this.#options.shares.of({ did: account.did, cause, host: pdsHost })
  }

  #setShares(patient: Patient, shares: readonly Share[]): void {
    if (this.#patients.get(patient.account.did) !== patient) return
    this.#options.shares.count(patient.shares, -1)
    this.#options.shares.count(shares, 1)
    patient.shares = shares
  }
}

/** The place in the queue of those of a share whose documents are to be read. No host has such a name. */
function documentsOf(shares: readonly Share[]): string {
  return `documents for ${shares.at(-1)?.name}`
}
