/**
 * What the honest hosts sent, and what of it a consumer has seen. Every event that a consumer sees in the name of an
 * honest account must be one that its host sent, with the same content, once, in order.
 */

/** An event that must come out. */
export interface Expected<Seen> {
  did: string
  /** What tells it from all other events of its account. */
  key: string
  /** The revision, of a commit. */
  rev: string | undefined
  sentAtMs: number
  /** Whether what was seen has the content that was sent. */
  isAsSent: (seen: Seen) => boolean
}

/** What a consumer saw. */
export interface SeenEvent {
  did: string
  key: string
  /** An `#identity` that says nothing but which account it is about: any host may cause one. */
  isHint: boolean
  /** The revision, of a `#sync`. */
  syncRev: string | undefined
  detail: string
}

/**
 * - `as-sent`: the event that was expected, with nothing before it missing.
 * - `hint`: an `#identity` without content, which any host may cause.
 * - `made-up-for`: a `#sync` that the relay made from what the account's host answered.
 * - the others are faults.
 */
export type Finding = 'as-sent' | 'hint' | 'made-up-for' | 'forged' | 'altered' | 'repeated' | 'out-of-order'

interface AccountJournal<Seen> {
  /** Sent and not yet seen, oldest first. */
  waiting: Expected<Seen>[]
  /** Not seen, though a later event was. */
  passed: Expected<Seen>[]
  /** The keys of the last events that were seen, and the last revisions. */
  seen: string[]
  revs: string[]
}

const keptPerAccount = 400

export class Journal<Seen> {
  readonly #accounts = new Map<string, AccountJournal<Seen>>()
  /** Events that must come out, so far. */
  sent = 0

  /** Notes an honest account: events in its name that were not sent are forged. */
  add(did: string): void {
    this.#accounts.set(did, { waiting: [], passed: [], seen: [], revs: [] })
  }

  has(did: string): boolean {
    return this.#accounts.has(did)
  }

  note(event: Expected<Seen>): void {
    const account = this.#account(event.did)
    account.waiting.push(event)
    if (event.rev !== undefined && account.revs.at(-1) !== event.rev) keep(account.revs, event.rev)
    this.sent++
  }

  /** Holds an event that was seen against what was sent. */
  find(event: SeenEvent, seen: Seen): { finding: Finding; sent: Expected<Seen> | undefined } {
    const account = this.#account(event.did)
    const at = account.waiting.findIndex(({ key }) => key === event.key)
    const sent = account.waiting[at]
    // A stranger may repeat what an account's own host says, as a hint. That is another event.
    if (event.isHint && sent?.isAsSent(seen) !== true) return { finding: 'hint', sent: undefined }
    if (sent) {
      const before = account.waiting.splice(0, at + 1).slice(0, -1)
      account.passed.push(...before)
      keep(account.seen, event.key)
      return { finding: sent.isAsSent(seen) ? 'as-sent' : 'altered', sent }
    }
    const late = account.passed.findIndex(({ key }) => key === event.key)
    if (late >= 0) return { finding: 'out-of-order', sent: account.passed.splice(late, 1)[0] }
    return { finding: this.#findUnsent(account, event), sent: undefined }
  }

  /** Sent at least `forMs` before `nowMs`, and not seen. */
  missing(nowMs: number, forMs = 0): Expected<Seen>[] {
    return [...this.#accounts.values()].flatMap(({ waiting, passed }) => [
      ...passed,
      ...waiting.filter(({ sentAtMs }) => nowMs - sentAtMs >= forMs),
    ])
  }

  #findUnsent(account: AccountJournal<Seen>, { key, syncRev }: SeenEvent): Finding {
    if (account.seen.includes(key)) return 'repeated'
    if (syncRev === undefined || !account.revs.includes(syncRev)) return 'forged'
    const isMissed = ({ rev }: Expected<Seen>): boolean => rev === undefined || rev > syncRev
    account.waiting = account.waiting.filter(isMissed)
    account.passed = account.passed.filter(isMissed)
    return 'made-up-for'
  }

  #account(did: string): AccountJournal<Seen> {
    const account = this.#accounts.get(did)
    if (!account) throw new Error(`${did} is no account of an honest host`)
    return account
  }
}

function keep(list: string[], value: string): void {
  list.push(value)
  if (list.length > keptPerAccount) list.shift()
}
