/**
 * An account that writes and moves between hosts, in an order that is drawn: of the change of its document, of what the
 * new host says of it, and of what the old one says, which may be late or nothing.
 */
import type { Random, ScriptedAccount } from '@tributary/testkit'
import type { LateHome } from './late-home.ts'

const collection = 'org.impact.collection'

export interface Moving {
  account: ScriptedAccount
  home: LateHome
  /** Revisions of all its commits, oldest first. */
  revs: string[]
  /** What was done, in brief. */
  story: string[]
}

export async function newMoving(home: LateHome): Promise<Moving> {
  const account = await home.host.createAccount()
  // From now on it sends over the slow line.
  await account.moveTo(home)
  return { account, home, revs: [account.rev ?? ''], story: [] }
}

export function write({ account, revs, story }: Moving, count: number): void {
  for (let n = 0; n < count; n++) revs.push(account.create(collection, { n }).rev)
  if (count > 0) story.push(`${count} commits`)
}

/** Moves the account, and writes on the old host until the document is changed, and on the new one at once after that. */
export async function move(moving: Moving, target: LateHome, random: Random): Promise<void> {
  const { account, home, story } = moving
  const says = (what: string, share: number): boolean => {
    const isSaid = random.next() < share
    if (isSaid) story.push(what)
    return isSaid
  }
  const leave = (): unknown =>
    home.emit('#account', { did: account.did, active: false, status: 'deactivated' })
  const leavesAt = random.pick(['before', 'at', 'after', 'late', 'never'])
  if (leavesAt === 'before' && says('old: deactivated', 1)) leave()
  await account.moveTo(target)
  moving.home = target
  story.push(`moves to ${target.host.host}`)
  if (leavesAt === 'at' && says('old: deactivated', 1)) leave()
  if (says('new: active', 0.5)) account.setStatus(undefined)
  if (says('new: identity', 0.5)) account.announceIdentity()
  if (says('new: sync', 0.3)) account.announceSync()
  if (leavesAt === 'after' && says('old: deactivated', 1)) leave()
  write(moving, 1 + random.below(3))
  if (leavesAt === 'late' && says('old: deactivated', 1)) leave()
}

export interface OutEvent {
  kind: 'commit' | 'sync'
  rev: string
  since: string | undefined
  atMs: number
}

const healMsMax = 60_000

/**
 * What is wrong with what came out of an account: commits out of order, twice, or that it never made, and gaps that no
 * `#sync` makes up for within a minute. Undefined when nothing is.
 */
export function faultOf(out: readonly OutEvent[], revs: readonly string[]): string | undefined {
  const made = new Set(revs)
  let known = ''
  for (const [at, { kind, rev, since, atMs }] of out.entries()) {
    if (!made.has(rev)) return `${rev} is no commit of the account`
    if (kind === 'commit' && rev <= known) return `the commit ${rev} came after ${known}`
    if (kind === 'sync' && rev < known) return `the #sync ${rev} came after ${known}`
    const isGap = kind === 'commit' && known !== '' && since !== known
    const isHealed = () => out.slice(at).some((each) => each.kind === 'sync' && each.atMs - atMs <= healMsMax)
    if (isGap && !isHealed()) return `${rev} follows ${since}, and ${known} was before it`
    known = rev
  }
  return known === revs.at(-1) ? undefined : `${known} came last, and ${revs.at(-1)} is the newest`
}
