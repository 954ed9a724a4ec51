import { RecentMap } from '@tributary/identity'
import type { Did } from '@tributary/protocol'

/** Accounts that are kept, and letters of their collections: some 20 MB at most. */
const max = { accounts: 20_000, letters: 500 }

/**
 * The collections that are stored of accounts which wrote lately, each account's as one text with spaces between. Most
 * commits are of collections that are known. What is not kept is stored again, which changes nothing.
 */
export class KnownCollections {
  readonly #byDid = new RecentMap<Did, string>(max.accounts)

  /**
   * Takes note of the collections of a commit, given as one text with spaces between.
   * @returns those that were not known of the account.
   */
  note(did: Did, collections: string): string[] {
    if (collections === '') return none
    const known = this.#byDid.get(did)
    if (collections === known) return none
    const names = known?.split(' ') ?? none
    const added = collections.split(' ').filter((name) => !names.includes(name))
    if (added.length > 0) this.#keep(did, known === undefined ? collections : [...names, ...added].join(' '))
    return added
  }

  /** What was stored of the account is dropped. */
  forget(did: Did): void {
    this.#byDid.delete(did)
  }

  #keep(did: Did, collections: string): void {
    if (collections.length <= max.letters) this.#byDid.set(did, collections)
    else this.#byDid.delete(did)
  }
}

const none: string[] = []
