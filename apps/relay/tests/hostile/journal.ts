/**
 * What the honest hosts sent, and what of it a consumer has seen. Every event that a consumer sees in the name of an
 * honest account must be one that its host sent, with the same content, once, in order.
 */

/** An event that must come out. */
export interface Expected<Seen> {
  did: string
  /** What tells it from all other events of its account. */
  key: string
  /** The revision, of a commit; of a sync where repositories may be read as a whole. */
  rev: string | undefined
  /** The record that it writes or deletes. */
  path?: string
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
  /** The revision and the record, of a create: it may be of a repository that was read as a whole. */
  created?: { rev: string; path: string } | undefined
  detail: string
}

/**
 * - `as-sent`: the event that was expected, with nothing before it missing.
 * - `hint`: an `#identity` without content, which any host may cause.
 * - `made-up-for`: a `#sync` that the relay made from what the account's host answered.
 * - `read-again`: the stream read the repository as a whole. A `#sync` says so if it had records of it, and each record
 *   is a create of the revision that was read.
 * - the others are faults.
 */
export type Finding =
  | 'as-sent'
  | 'hint'
  | 'made-up-for'
  | 'read-again'
  | 'forged'
  | 'altered'
  | 'repeated'
  | 'out-of-order'

interface AccountJournal<Seen> {
  /** Sent and not yet seen, oldest first. */
  waiting: Expected<Seen>[]
  /** Not seen, though a later event was. */
  passed: Expected<Seen>[]
  /** The keys of the last events that were seen, and the last revisions. */
  seen: string[]
  revs: string[]
  /** The last writes of records. */
  writes: Expected<Seen>[]
  /** The revision of the last `#sync`, after which records may come that were seen before. */
  syncedRev: string | undefined
}

const keptPerAccount = 400

export class Journal<Seen> {
  readonly #accounts = new Map<string, AccountJournal<Seen>>()
  readonly #readsAgain: boolean
  /** Events that must come out, so far. */
  sent = 0

  /** @param readsAgain who makes these events may read repositories as a whole. */
  constructor({ readsAgain = false }: { readsAgain?: boolean } = {}) {
    this.#readsAgain = readsAgain
  }

  /** Notes an honest account: events in its name that were not sent are forged. */
  add(did: string): void {
    this.#accounts.set(did, { waiting: [], passed: [], seen: [], revs: [], writes: [], syncedRev: undefined })
  }

  has(did: string): boolean {
    return this.#accounts.has(did)
  }

  note(event: Expected<Seen>): void {
    const account = this.#account(event.did)
    account.waiting.push(event)
    if (event.rev !== undefined && account.revs.at(-1) !== event.rev) keep(account.revs, event.rev)
    if (event.path !== undefined) keep(account.writes, event)
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
      // A #sync may be of a repository that was read as a whole. It says nothing of what has no revision.
      const mayBeReadAgain = this.#readsAgain && event.syncRev !== undefined
      const staysDue = ({ rev }: Expected<Seen>): boolean => mayBeReadAgain && rev === undefined
      account.waiting.unshift(...before.filter(staysDue))
      account.passed.push(...before.filter((each) => !staysDue(each)))
      keep(account.seen, event.key)
      account.syncedRev = event.syncRev ?? account.syncedRev
      return { finding: sent.isAsSent(seen) ? 'as-sent' : 'altered', sent }
    }
    const late = account.passed.findIndex(({ key }) => key === event.key)
    if (late >= 0) return { finding: 'out-of-order', sent: account.passed.splice(late, 1)[0] }
    if (this.#readsAgain && isReadAgain(account, event, seen))
      return { finding: 'read-again', sent: undefined }
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
    forgetThrough(account, syncRev)
    return 'made-up-for'
  }

  #account(did: string): AccountJournal<Seen> {
    const account = this.#accounts.get(did)
    if (!account) throw new Error(`${did} is no account of an honest host`)
    return account
  }
}

/** Whether an event is of a repository that was read as a whole. It stands for all that was not seen until then. */
function isReadAgain<Seen>(
  account: AccountJournal<Seen>,
  { key, syncRev, created }: SeenEvent,
  seen: Seen,
): boolean {
  const rev = syncRev ?? created?.rev
  if (rev === undefined || !account.revs.includes(rev)) return false
  if (created) {
    if (account.seen.includes(key) && account.syncedRev !== rev) return false
    const written = account.writes.findLast(
      (write) => write.path === created.path && (write.rev ?? '') <= rev,
    )
    if (written?.isAsSent(seen) !== true) return false
  } else account.syncedRev = rev
  keep(account.seen, key)
  forgetThrough(account, rev)
  return true
}

/** What was sent up to a revision, and was not seen, does not come any more. */
function forgetThrough<Seen>(account: AccountJournal<Seen>, rev: string): void {
  const isMissed = (event: Expected<Seen>): boolean => event.rev === undefined || event.rev > rev
  account.waiting = account.waiting.filter(isMissed)
  account.passed = account.passed.filter(isMissed)
}

function keep<T>(list: T[], value: T): void {
  list.push(value)
  if (list.length > keptPerAccount) list.shift()
}
