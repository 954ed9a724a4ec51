import type { AccountPage } from '../state/state-store.ts'
import type { CallerTurns } from './caller-turns.ts'

/** Accounts that are read of the database in one turn of the event loop: one or two milliseconds. */
export const accountsPerTurn = 200

/** Reads accounts after a DID, at most so many. */
export type ReadPage<R> = (afterDid: string, limit: number) => AccountPage<R>

/** A page, read some accounts at a time. It is shorter than it may be when few of those that were looked at are listed. */
export async function pageInTurns<R>(
  turns: CallerTurns,
  address: string,
  { cursor, limit }: { cursor: string; limit: number },
  read: ReadPage<R>,
): Promise<AccountPage<R>> {
  const repos: R[] = []
  for (let afterDid = cursor; ;) {
    const wanted = Math.min(accountsPerTurn, limit - repos.length)
    const part = await turns.run(address, () => read(afterDid, wanted))
    repos.push(...part.repos)
    if (part.cursor === undefined) return { repos }
    if (part.repos.length < wanted || repos.length === limit) return { repos, cursor: part.cursor }
    afterDid = part.cursor
  }
}
