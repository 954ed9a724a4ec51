/**
 * Makes up for events that were left out: fetches the current commit of an account from its host and puts it through
 * the pipeline as a `#sync`. A discontinuity alone is no reason to; that is for the account's host to heal.
 */
import type { Did } from '@tributary/protocol'
import type { Account } from '../state/account.ts'
import { NoAnswerError, type CurrentCommit, type HostInquiry } from './host-inquiry.ts'

export interface HealerOptions {
  inquiry: Pick<HostInquiry, 'currentCommit' | 'status'>
  /** Whether the source of an account is to be read. If not, its host is not asked, and what it answered does not count. */
  isSourceWanted: (account: Account) => boolean
  /** Puts a verified `#sync` through the pipeline, which takes `isIncomplete` off the account when it is logged. */
  onCommit: (account: Account, frame: Uint8Array) => void
  /** The host gives no commit, and says why: the account is not active. */
  onStatus: (account: Account, status: string) => void
  /**
   * The host is not asked any more until something else happens: it has none to give, did not answer for long, or its
   * source is not wanted.
   */
  onGivenUp: (account: Account) => void
  /** How long a commit that is ahead of what was passed on is held. Default 2,000. */
  settleMs?: number
}

/** Accounts that are waited for. Those beyond are healed by the next `#sync` of their host. */
const accountsMax = 10_000
const atOnceMax = 4
/** From one attempt to the next, whether its host did not answer or it has to be seen that the answer was the newest. */
const retryMs = { first: 1000, max: 3_600_000 }
const attemptsMax = 30
const tickMs = 250
/**
 * A host answers with commits whose events are still on their way: a PDS looks for events to send every second at
 * least. Passed on at once, the answer would take their place, and they would be refused for coming too late.
 */
const settleMsDefault = 2000

interface Patient {
  account: Account
  attempts: number
  dueMs: number
  /** More was left out while its host was asked, which the answer may not have. */
  isMoreMissing: boolean
  /** The answer of the host, while it is waited for what may be on its way. */
  held: Uint8Array | undefined
}

export class Healer {
  readonly #options: HealerOptions
  readonly #patients = new Map<Did, Patient>()
  readonly #timer: NodeJS.Timeout
  #underWay = 0
  #isClosed = false

  constructor(options: HealerOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#tick(), tickMs).unref()
  }

  /** Accounts that wait for their host. */
  get size(): number {
    return this.#patients.size
  }

  /**
   * Fetches the current commit of an account as soon as its host answers, and again until it has been logged.
   * @param notBeforeMs in milliseconds since 1970. Default: at once.
   * @returns false when too many are waited for.
   */
  add(account: Account, notBeforeMs = 0): boolean {
    const patient = this.#patients.get(account.did)
    if (patient) {
      patient.isMoreMissing = true
      return true
    }
    if (this.#patients.size >= accountsMax) return false
    this.#patients.set(account.did, {
      account,
      attempts: 0,
      dueMs: notBeforeMs,
      isMoreMissing: true,
      held: undefined,
    })
    // The caller says first that something is missing.
    queueMicrotask(() => this.#tick())
    return true
  }

  /** Whether an account waits for its host. */
  has(did: Did): boolean {
    return this.#patients.has(did)
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  #tick(): void {
    const now = Date.now()
    for (const patient of this.#patients.values()) {
      if (this.#isClosed || this.#underWay >= atOnceMax) return
      if (patient.dueMs > now) continue
      const { account } = patient
      const isSpent = !patient.held && patient.attempts >= attemptsMax
      if (!account.isIncomplete && !patient.isMoreMissing) this.#patients.delete(account.did)
      else if (isSpent || !this.#options.isSourceWanted(account)) {
        this.#patients.delete(account.did)
        this.#options.onGivenUp(account)
      } else if (patient.held) this.#passOn(patient, patient.held)
      else void this.#heal(patient)
    }
  }

  async #heal(patient: Patient): Promise<void> {
    const { account } = patient
    patient.dueMs = Infinity
    patient.isMoreMissing = false
    this.#underWay++
    try {
      const answer = await this.#ask(account)
      if (answer && answer.rev > (account.rev ?? '')) {
        patient.held = answer.frame
        patient.dueMs = Date.now() + (this.#options.settleMs ?? settleMsDefault)
      } else this.#passOn(patient, answer?.frame)
    } finally {
      this.#underWay--
      this.#tick()
    }
  }

  /** Puts the host's answer through the pipeline, if there is one, and waits to see whether that was enough. */
  #passOn(patient: Patient, frame: Uint8Array | undefined): void {
    patient.held = undefined
    const waitMs = Math.min(retryMs.max, retryMs.first * 2 ** patient.attempts++)
    patient.dueMs = Date.now() + waitMs * (0.75 + Math.random() / 2)
    const isHeard = !this.#isClosed && this.#options.isSourceWanted(patient.account)
    if (frame && isHeard) this.#options.onCommit(patient.account, frame)
  }

  async #ask(account: Account): Promise<CurrentCommit | undefined> {
    const { inquiry, isSourceWanted, onStatus, onGivenUp } = this.#options
    try {
      return await inquiry.currentCommit(account.did)
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error
      const before = account.upstreamStatus
      const status = await inquiry.status(account.did)
      if (status === undefined || status === 'active' || this.#isClosed) return undefined
      if (!isSourceWanted(account)) return undefined
      if (account.upstreamStatus === before) onStatus(account, status)
      // When it is active again its commit is asked for again.
      this.#patients.delete(account.did)
      onGivenUp(account)
      return undefined
    }
  }
}
