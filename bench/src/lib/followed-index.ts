/** An index of 200,000 accounts, and viewers who follow from 50 to 50,000 of them: busy ones, average ones, silent ones. */
import { openIndexWriter } from '@tributary/index-store'
import { randomFrom } from '@tributary/testkit'
import { addEntriesInBulk } from './bulk-entries.ts'
import { didOf, FeedIndexWriter } from './feed-index.ts'

const followCounts = [50, 500, 5000, 50_000] as const
export const activities = ['busy', 'average', 'silent'] as const

export interface FollowingViewer {
  readonly did: string
  readonly follows: number
  readonly activity: (typeof activities)[number]
}

export const followedAccounts = 200_000
/** A quarter of the accounts never wrote anything. */
const authorCount = followedAccounts * 0.75
const accountsPerTransaction = 10_000

/** Writes accounts and follows with the index's own store, and entries in bulk. The first accounts write the most. */
export async function fillFollowedIndex(place: string, records: number): Promise<FollowingViewer[]> {
  const accounts = Array.from({ length: followedAccounts }, (_, index) => didOf('author', index))
  const viewers: FollowingViewer[] = []
  {
    await using store = await openIndexWriter(place)
    const writer = new FeedIndexWriter(store, randomFrom(1))
    for (let at = 0; at < accounts.length; at += accountsPerTransaction)
      await writer.accounts(accounts.slice(at, at + accountsPerTransaction))
    for (const follows of followCounts) {
      for (const activity of activities) {
        const did = didOf('viewer', viewers.length)
        viewers.push({ did, follows, activity })
        await writer.relations('follows', [did], followed(accounts, follows, activity))
      }
    }
  }
  await addEntriesInBulk(place, accounts.slice(0, authorCount), records)
  return viewers
}

function followed<T>(
  accounts: readonly T[],
  count: number,
  activity: FollowingViewer['activity'],
): readonly T[] {
  if (activity === 'busy') return accounts.slice(0, count)
  if (activity === 'silent') return accounts.slice(-count)
  return accounts.filter((_, index) => index % (followedAccounts / count) === 0)
}
