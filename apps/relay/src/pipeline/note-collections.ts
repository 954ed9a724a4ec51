import type { Account } from '../state/account.ts'

/** Collections of one account that are kept; what it writes into further ones is not listed. */
const collectionsMax = 1000

/**
 * Takes note of the collections of a commit, given as one text with spaces between. Most commits are of the collections
 * of the one before.
 * @returns those that are new for the account.
 */
export function noteCollections(account: Account, collections: string): string[] {
  if (collections === account.lastCollections || collections === '') return none
  account.lastCollections = collections
  const room = collectionsMax - account.collections.length
  const added = collections
    .split(' ')
    .filter((name) => !account.collections.includes(name))
    .slice(0, room)
  account.collections.push(...added)
  return added
}

export function forgetCollections(account: Account): void {
  account.collections = []
  account.lastCollections = ''
}

const none: string[] = []
