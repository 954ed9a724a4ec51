import type { CallerTurns } from '@tributary/xrpc'
import type { AccountPage } from '../state/state-store.ts'

/** Accounts that are read of the database in one turn of the event loop: one or two milliseconds. */
export const accountsPerTurn = 200

/** Reads accounts after a DID, at most so many. */
export type ReadPage<R> = (afterDid: string, limit: number) => AccountPage<R>

/**
 * A page `{ repos, cursor }` as JSON, read and written some accounts at a time: a thousand accounts as objects, for each
 * of many callers, are most of what collecting garbage takes. It is shorter than it may be when few of the accounts that
 * were looked at are listed.
 */
export async function pageInTurns<R>(
  turns: CallerTurns,
  address: string,
  { cursor, limit }: { cursor: string; limit: number },
  read: ReadPage<R>,
): Promise<Buffer> {
  const parts: Buffer[] = []
  let count = 0
  for (let afterDid = cursor; ;) {
    const wanted = Math.min(accountsPerTurn, limit - count)
    const next = await turns.run(address, () => {
      const { repos, cursor: readTo } = read(afterDid, wanted)
      const isLast = readTo === undefined || repos.length < wanted || count + repos.length === limit
      const rows = JSON.stringify(repos).slice(1, -1)
      const end = readTo === undefined ? ']}' : `],"cursor":${JSON.stringify(readTo)}}`
      const text = `${count === 0 ? '{"repos":[' : repos.length > 0 ? ',' : ''}${rows}${isLast ? end : ''}`
      count += repos.length
      parts.push(Buffer.from(text))
      return isLast ? undefined : readTo
    })
    if (next === undefined) return Buffer.concat(parts)
    afterDid = next
  }
}
