import { RecentMap } from '@tributary/identity'
import type { Account } from '../state/account.ts'

/** What is kept: some 20 MB at most. */
const max = { accounts: 40_000, ofAccount: 100, names: 20_000 }

/**
 * The collections that are stored of accounts which wrote lately. Most commits are of collections that are known. What is
 * not kept is stored again, which changes nothing. Each name has a letter, and each account a text of letters.
 */
export class KnownCollections {
  /** By the row of the account, which keeps it as long as it has a source. */
  #byRow = new RecentMap<number, string>(max.accounts)
  readonly #letters = new Map<string, string>()

  /**
   * Takes note of the collections of a commit, given as one text with spaces between.
   * @returns those that were not known of the account.
   */
  note({ row }: Pick<Account, 'row'>, collections: string): string[] {
    if (collections === '') return none
    const known = this.#byRow.get(row) ?? ''
    // Most commits are of one collection.
    const letter = this.#letters.get(collections)
    if (letter !== undefined && known.includes(letter)) return none
    const names = collections.split(' ')
    const added = names.filter((name) => !known.includes(this.#letters.get(name) ?? unknown))
    if (added.length > 0) this.#keep(row, known, added)
    return added
  }

  /** What was stored of the account is dropped. */
  forget({ row }: Pick<Account, 'row'>): void {
    this.#byRow.delete(row)
  }

  #keep(row: number, known: string, added: readonly string[]): void {
    if (this.#letters.size + added.length > max.names) {
      this.#letters.clear()
      this.#byRow = new RecentMap(max.accounts)
      return
    }
    const letters = known + added.map((name) => this.#letterOf(name)).join('')
    if (letters.length <= max.ofAccount) this.#byRow.set(row, letters)
    else this.#byRow.delete(row)
  }

  #letterOf(name: string): string {
    const letter = this.#letters.get(name) ?? String.fromCharCode(this.#letters.size + 1)
    this.#letters.set(name, letter)
    return letter
  }
}

/** The letter of no name. */
const unknown = '\0'
const none: string[] = []
