/**
 * Makes up for events that were left out: fetches the current commit of an account from its host and puts it through
 * the pipeline as a `#sync`. A discontinuity alone is no reason to; that is for the account's host to heal.
 */
import type { Did } from '@tributary/protocol'
import type { Account } from '../state/account.ts'
import { NoAnswerError, type HostInquiry } from './host-inquiry.ts'

export interface HealerOptions {
  inquiry: HostInquiry
  /** Puts a verified `#sync` through the pipeline. */
  onCommit: (account: Account, frame: Uint8Array) => void
}

/** Accounts that are waited for. Those beyond are healed by the next `#sync` of their host. */
const accountsMax = 10_000
const atOnceMax = 4
const retryMs = { first: 5000, max: 3_600_000 }
const attemptsMax = 30
const tickMs = 1000

interface Patient {
  account: Account
  attempts: number
  dueMs: number
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

  /** Fetches the current commit of an account at once, or as soon as its host answers. */
  add(account: Account): void {
    if (this.#patients.has(account.did) || this.#patients.size >= accountsMax) return
    this.#patients.set(account.did, { account, attempts: 0, dueMs: 0 })
    this.#tick()
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  #tick(): void {
    const now = Date.now()
    for (const patient of this.#patients.values()) {
      if (this.#isClosed || this.#underWay >= atOnceMax) return
      if (patient.dueMs <= now) void this.#heal(patient)
    }
  }

  async #heal(patient: Patient): Promise<void> {
    const { account } = patient
    patient.dueMs = Infinity
    this.#underWay++
    try {
      const frame = await this.#options.inquiry.currentCommit(account.did)
      this.#patients.delete(account.did)
      if (!this.#isClosed) this.#options.onCommit(account, frame)
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error
      patient.attempts++
      const waitMs = Math.min(retryMs.max, retryMs.first * 2 ** (patient.attempts - 1))
      patient.dueMs = Date.now() + waitMs * (0.75 + Math.random() / 2)
      if (patient.attempts >= attemptsMax) this.#patients.delete(account.did)
    } finally {
      this.#underWay--
      this.#tick()
    }
  }
}
