/** What must hold of the questions to hosts, once nothing is missing any more. */
import type { Did } from '@tributary/protocol'
import { publicStatus } from '../../src/state/account.ts'
import type { SimulatedAccount } from './hosts.ts'
import type { RelayProcess } from './relay-process.ts'
import type { Watch } from './watch.ts'

/** How long an account is away, and after which time its commit was asked for. */
const away = { ms: 5000, askedWithinMs: 40_000 }
/** How long an account that was asked for may still be looked after. */
const lookedAfterMs = 300_000

interface Run {
  accounts: readonly SimulatedAccount[]
  watch: Watch
  relay: RelayProcess
  pass: (ms: number) => Promise<void>
  setStatus: (account: SimulatedAccount, word: string) => void
  /** An account is active again, of which its host says nothing, and misses a commit. */
  misses: (account: SimulatedAccount) => void
}

export async function finish({ accounts, watch, relay, pass, setStatus, misses }: Run): Promise<void> {
  const known = (did: string) => relay.parts.store.accounts.get(did)
  const isWhole = (did: string): boolean => {
    const account = known(did)
    return account !== undefined && publicStatus(account).active && !account.isIncomplete
  }
  const commitsAskedFrom = (from: number, did: string): number =>
    watch.asked.slice(from).filter((each) => each.did === did && !each.isStatus).length
  const whole = accounts.filter(({ did }) => isWhole(did))
  const sinceMs = watch.world.time.nowMs - lookedAfterMs
  const recent = new Set(watch.asked.filter(({ atMs }) => atMs >= sinceMs).map(({ did }) => did))
  // A look at a document of which the time comes meanwhile asks once more.
  const isLookedAt = (did: Did): boolean =>
    [...relay.parts.sources.sources].some(({ looks }) => looks.has(did))
  const [first, second] = whole.filter(
    ({ did, host, status }) => host.isRead && status === 'active' && !recent.has(did) && !isLookedAt(did),
  )
  for (const [account, isTold] of [
    [first, true],
    [second, false],
  ] as const) {
    // What another relay forwards is a reason to ask once more.
    if (!account || (!isTold && watch.world.sources.some(({ isRelay }) => isRelay))) continue
    setStatus(account, 'deactivated')
    await pass(away.ms)
    const from = watch.asked.length
    if (isTold) setStatus(account, 'active')
    else misses(account)
    await pass(away.askedWithinMs)
    const count = commitsAskedFrom(from, account.did)
    if (count > 1) watch.onBroken(`a commit of ${account.did} is asked for ${count} times when it is back`)
  }
}
