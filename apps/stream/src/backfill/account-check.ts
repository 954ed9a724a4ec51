/**
 * Asks the relay how accounts are, one after the other, when events were lost: one of them may have taken an account down or
 * deleted it, and a PDS does not list such an account any more.
 *
 * Must hold: no account is left out, whatever stops or fails meanwhile, and none is held in memory. It is not known which PDS
 * an account was at while its events were lost, and any PDS may list any account. So all are asked about of which the archive
 * has something, as often as events were lost, at the pace of the relay.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { wait, type Clock } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import type { AccountCorrections } from '../ingest/account-corrections.ts'
import type { RepoStates } from '../ingest/repo-states.ts'
import type { StateDatabase } from '../state-database.ts'
import { HostAwayError, type HostRequests } from './host-requests.ts'
import { retryWait } from './retry-wait.ts'
import { isAnswerFault, readAccountWord } from './sync-answers.ts'

export interface AccountCheckOptions {
  database: StateDatabase
  states: RepoStates
  requests: HostRequests
  /** Origin of the relay. */
  relayUrl: string
  /** Told what the relay says of each account. Default: nobody. */
  corrections?: Pick<AccountCorrections, 'correct'> | undefined
  /** Gives the result of an answer; a defect of ours on the way costs that answer. */
  asked: <T>(ask: () => Promise<T>) => Promise<T>
  logger: Logger
  clock: Clock
  random: () => number
  signal: AbortSignal
}

interface Row {
  /** How often a check was begun. */
  begins: number
  /** Accounts up to here were asked about. NULL: all of them. */
  afterDid: string | null
}

/** Accounts that are looked at in one turn of the event loop: some two milliseconds. */
const pageMax = 200
/** Accounts that are asked about at a time. Repositories that are read ask the relay, too, and come between them. */
const askedAtOnce = 4
const lookMs = 1000
const statusBounds = { bytesMax: 64 * 1024, timeoutMs: 10_000 }
/** Attempts at one account, in some five minutes, before it is marked: its reading asks again, for as long as that takes. */
const attemptsMax = 10
const retryMs = { first: 1000, max: 60_000 }

export class AccountCheck {
  readonly #options: AccountCheckOptions
  readonly #row
  readonly #begin
  readonly #note
  readonly #page
  #isUnderWay: boolean
  /** Why the relay did not answer last; undefined when it did. */
  #error: string | undefined

  constructor(options: AccountCheckOptions) {
    const { database } = options
    this.#options = options
    this.#row = database.prepare<[], Row>('SELECT begins, after_did AS afterDid FROM account_check')
    this.#begin = database.prepare(
      `INSERT INTO account_check VALUES (1, 1, '') ON CONFLICT DO UPDATE SET begins = begins + 1, after_did = ''`,
    )
    this.#note = database.prepare('UPDATE account_check SET after_did = ? WHERE begins = ?')
    // Which ones are asked about is told of each, because a search for them could pass over a million others.
    this.#page = database.prepare<[string], { did: Did; isAsked: number }>(
      `SELECT did, (rev <> '' OR backfill_rev <> '') AND is_taken_down = 0 AS isAsked
       FROM repos WHERE did > ? ORDER BY did LIMIT ${pageMax}`,
    )
    this.#isUnderWay = typeof this.#row.get()?.afterDid === 'string'
  }

  /** Events were lost: all accounts are asked about, from the first one on. To be called within a transaction. */
  begin(): void {
    this.#begin.run()
    this.#isUnderWay = true
  }

  /** Why it is not known of all accounts how they are; undefined when it is. */
  get reason(): string | undefined {
    if (!this.#isUnderWay) return undefined
    const said = 'events were lost, and the relay is asked which accounts are gone'
    return this.#error === undefined ? said : `${said}: ${this.#error}`
  }

  /** Runs until the signal is aborted. @throws what is a fault of the disk. */
  async run(): Promise<void> {
    const { clock, signal } = this.#options
    while (!signal.aborted) {
      if (this.#isUnderWay) await this.#check()
      await wait(clock, lookMs, signal)
    }
  }

  /** Asks about all accounts that were not asked about yet. Ends when another check was begun meanwhile. */
  async #check(): Promise<void> {
    const { signal, logger } = this.#options
    const { begins, afterDid } = this.#row.get() ?? { begins: 0, afterDid: null }
    const isCurrent = (): boolean => this.#row.get()?.begins === begins
    // From then on the database has every account that is known.
    await this.#saved()
    for (let after = afterDid; after !== null && isCurrent();) {
      const page = this.#page.all(after)
      const dids = page.filter(({ isAsked }) => isAsked === 1).map(({ did }) => did)
      for (let from = 0; from < dids.length; from += askedAtOnce)
        await Promise.all(dids.slice(from, from + askedAtOnce).map((did) => this.#ask(did)))
      signal.throwIfAborted()
      await nextTurn()
      const through = page.length < pageMax ? null : (page.at(-1)?.did ?? null)
      // Together with what the relay said of them.
      this.#options.states.alongside(() => void this.#note.run(through, begins))
      after = through
    }
    if (!isCurrent()) return
    this.#isUnderWay = false
    logger.info('events were lost, and the relay has been asked about every account')
  }

  /** Resolves after the next save of the states, or when everything stops. */
  async #saved(): Promise<void> {
    const { states, signal } = this.#options
    const { promise, resolve } = Promise.withResolvers<void>()
    const over = (): void => resolve()
    states.alongside(() => {}, over)
    signal.addEventListener('abort', over)
    await promise
    signal.removeEventListener('abort', over)
    signal.throwIfAborted()
  }

  async #ask(did: Did): Promise<void> {
    const { states, requests, relayUrl, corrections, asked, clock, random, signal } = this.#options
    for (let attempts = 1; !signal.aborted; attempts++) {
      try {
        const seen = states.get(did)?.accountSeen ?? ''
        const method = `getRepoStatus?did=${encodeURIComponent(did)}`
        const said = await asked(async () =>
          readAccountWord(await requests.ask(relayUrl, method, statusBounds)),
        )
        if (said) await corrections?.correct(did, said, seen)
        this.#error = undefined
        return
      } catch (error) {
        if (!isAnswerFault(error)) throw error
        this.#error = error.message
        if (attempts >= attemptsMax) return states.mark(did)
        const afterMs = error instanceof HostAwayError ? error.retryAfterMs : undefined
        await wait(clock, retryWait(attempts - 1, retryMs, afterMs, random), signal)
      }
    }
  }
}
