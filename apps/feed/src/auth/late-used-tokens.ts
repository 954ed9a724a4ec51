/**
 * Spent tokens in a file beside the database of the index. Only the index makes the directory, and may do so later: until then
 * nothing is made, and calls with a token fail as calls without an index do.
 */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { SpentTokens, TokenUse, TokenVerdict, UsedTokens } from './used-tokens.ts'

export class LateUsedTokens implements SpentTokens, Disposable {
  readonly #open: () => UsedTokens
  #store: UsedTokens | undefined

  /** Opens the file now if its directory is there, and else when a token is spent. Throws what `open` throws. */
  constructor(path: string, open: () => UsedTokens) {
    this.#open = open
    if (existsSync(dirname(path))) this.#store = open()
  }

  get isOpen(): boolean {
    return this.#store !== undefined
  }

  spend(use: TokenUse): TokenVerdict {
    this.#store ??= this.#open()
    return this.#store.spend(use)
  }

  [Symbol.dispose](): void {
    this.#store?.[Symbol.dispose]()
  }
}
