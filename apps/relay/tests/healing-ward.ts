import assert from 'node:assert/strict'
import { IdentityError, type IdentityFault } from '@tributary/identity'
import type { Did, Tid } from '@tributary/protocol'
import { Healing } from '../src/accounts/healing.ts'
import { OpenQuestions } from '../src/accounts/open-questions.ts'
import { PatientShares } from '../src/accounts/patient-shares.ts'
import type { CurrentCommit } from '../src/inquiry/host-answers.ts'
import { NoAnswerError, type HostedIdentity } from '../src/inquiry/host-inquiry.ts'
import type { Account } from '../src/state/account.ts'
import { newAccount } from './sample-account.ts'
import { TestClock } from './test-clock.ts'

export const rev = '3kabcdefghijk' as Tid // of the right form
export const commit: CurrentCommit = { rev, frame: new Uint8Array(1) }

/** The ways in which the host of a test answers when it is asked for a commit. */
export type Behaviour = (clock: TestClock, account: Account) => Promise<CurrentCommit | undefined>

export const gives: Behaviour = async () => Promise.resolve(commit)
/** The account's host gives no commit, and calls it active. */
export const isUseless: Behaviour = async () => Promise.resolve(undefined)
export const hangs: Behaviour = async (clock) => {
  await clock.sleep(10_000)
  throw new NoAnswerError('it does not answer', { isHostSilent: true })
}

/** The account's document was not read. */
function unlocated(reason: IdentityFault): NoAnswerError {
  return new NoAnswerError('no document', { cause: new IdentityError(reason, 'no document') })
}

/** Heals accounts of hosts that behave so, at a place where every commit that is put through is logged. */
export class Ward {
  readonly clock = new TestClock()
  readonly questions = new OpenQuestions()
  readonly healing: Healing
  readonly accounts = new Map<Did, Account>()
  readonly hostOf = new Map<Did, string>()
  /** Seconds from the start to the time when an account was whole, by DID. */
  readonly whole = new Map<Did, number>()
  readonly asked: Did[] = []
  readonly givenUp: Did[] = []
  /** News that hosts told of accounts. */
  readonly news: string[] = []
  readonly unread = new Set<string>()
  /** Accounts whose DID begins so have documents that never come, that cannot be read now, or that are not there. */
  readonly silentDirectories = new Set<string>()
  readonly unreadable = new Set<string>()
  readonly noDocuments = new Set<string>()
  isLogging = true
  /** Accounts are added by a sweep. */
  isSweeping = false
  notBeforeMs = 0
  newest = 0

  constructor(behaviourOf: Record<string, Behaviour>) {
    const startMs = this.clock.nowMs()
    this.healing = new Healing({
      clock: this.clock,
      questions: this.questions,
      inquiry: {
        locate: (did) => {
          const isOf = (some: Set<string>): boolean => [...some].some((each) => did.startsWith(each))
          if (isOf(this.silentDirectories)) return new Promise(() => {})
          if (isOf(this.unreadable)) return Promise.reject(unlocated('unavailable'))
          if (isOf(this.noDocuments)) return Promise.reject(unlocated('not-found'))
          const pdsUrl = this.hostOf.get(did) ?? ''
          return Promise.resolve({ did, pdsUrl, pdsHost: pdsUrl.replace('http://', '') } as HostedIdentity) // no more is read
        },
        currentCommit: async ({ did, pdsUrl }) => {
          this.asked.push(did)
          const account = this.accounts.get(did)
          return account && (await behaviourOf[pdsUrl]?.(this.clock, account))
        },
        statusAt: () => Promise.resolve('active'),
      },
      shares: new PatientShares({
        kindOf: (cause) => (cause.startsWith('relay') ? 'relay' : 'pds'),
        isRead: (host) => !this.unread.has(host),
      }),
      isWanted: () => true,
      isNewAt: () => false,
      newest: () => this.newest,
      onCommit: (account, _cause, _host, _frame, place) => {
        if (!this.isLogging) return
        account.rev = commit.rev
        account.isIncomplete &&= this.healing.missesMore(account.did, { place, isOwn: true })
        if (!account.isIncomplete) this.whole.set(account.did, (this.clock.nowMs() - startMs) / 1000)
      },
      onStatus: ({ did }, _cause, _host, status) => {
        this.news.push(status)
        this.missAgain(did, this.hostOf.get(did) ?? '')
      },
      onGivenUp: ({ did }) => this.givenUp.push(did),
      onDefect: (_, error) => assert.fail(String(error)),
    })
    this.clock.every(1000, () => this.healing.tick())
  }

  /** Accounts of a host that miss events because of a message of a source, with documents that are known or not. */
  mark(count: number, host: string, cause = host, isKnown = true): Did[] {
    return Array.from({ length: count }, (_, n) => {
      const did = `did:plc:${host}-${cause}-${n}` as Did // a name is enough here
      this.markOne(did, host, cause, isKnown)
      return did
    })
  }

  markOne(did: Did, host: string, cause: string, isKnown = false): void {
    const account = newAccount(did)
    this.accounts.set(did, account)
    this.hostOf.set(did, host)
    this.#miss(account, cause, isKnown ? host : undefined)
  }

  missAgain(did: Did, cause: string): void {
    const account = this.accounts.get(did)
    if (account) this.#miss(account, cause, this.hostOf.get(did))
  }

  #miss(account: Account, cause: string, host: string | undefined): void {
    const isOwnHost = cause === this.hostOf.get(account.did)
    this.healing.add(account, {
      cause,
      host,
      isOwnHost,
      notBeforeMs: this.notBeforeMs,
      isSwept: this.isSweeping,
    })
    account.isIncomplete = true
  }
}
