interface Account {
  /** The last work that was for the whole account. */
  whole: Promise<void>
  /** The last work on each record since then, where it is not done yet. */
  readonly records: Map<string, Promise<void>>
  unfinished: number
}

const nothing = Promise.resolve()

/**
 * Runs work on many records at a time, and on each record in the order in which it was given. Work for a whole account
 * comes after everything of the account before it, and before everything of the account after it.
 */
export class WorkOrder {
  readonly #accounts = new Map<string, Account>()

  /** Runs `work` when its turn comes. `record` is undefined for work on the whole account. `work` must not reject. */
  async run(did: string, record: string | undefined, work: () => Promise<void>): Promise<void> {
    const account = this.#accounts.get(did) ?? { whole: nothing, records: new Map(), unfinished: 0 }
    this.#accounts.set(did, account)
    account.unfinished++
    const done = afterAll(before(account, record), work)
    if (record === undefined) {
      account.whole = done
      account.records.clear()
    } else account.records.set(record, done)
    await done
    if (record !== undefined && account.records.get(record) === done) account.records.delete(record)
    if (--account.unfinished === 0) this.#accounts.delete(did)
  }
}

/** What has to be done first. */
function before({ whole, records }: Account, record: string | undefined): Iterable<Promise<void>> {
  return record === undefined ? [whole, ...records.values()] : [records.get(record) ?? whole]
}

async function afterAll(earlier: Iterable<Promise<void>>, work: () => Promise<void>): Promise<void> {
  await Promise.all(earlier)
  await work()
}
