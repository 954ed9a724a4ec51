/**
 * Has repositories written again as the backfill does, without its jobs: those that are marked, and in some runs those that
 * are not known to be whole. The host gives what it holds when it is asked, soon, late or not at all.
 */
import { IdentityError, type IdentityResolver } from '@tributary/identity'
import type { Digest, RepoRecord } from '@tributary/repo-verify'
import { readRepoCar } from '@tributary/repo-verify'
import { encodeCar } from '@tributary/testkit'
import type { ProcessClock } from '@tributary/testkit/simulation'
import type { Ingest } from '../../src/ingest/ingest.ts'
import type { RepoStates } from '../../src/ingest/repo-states.ts'
import type { WatchedCollections } from '../../src/policy/watched-collections.ts'
import type { StreamConditions } from './conditions.ts'
import type { Ledger } from './ledger.ts'
import type { SimulatedAccount } from './upstream.ts'

export interface RefillerOptions {
  clock: ProcessClock
  conditions: StreamConditions
  accounts: readonly SimulatedAccount[]
  /** Repositories that are not known to be whole are read, too, so long after a start. Undefined: only marked ones. */
  listedAfterMs: number | undefined
  resolver: IdentityResolver
  states: RepoStates
  watched: WatchedCollections
  ingest: Pick<Ingest, 'refill'>
  ledger: Ledger
  onThrown: (error: unknown) => void
}

interface Contents {
  rev: string
  data: Digest
  records: readonly RepoRecord[]
}

const tickMs = 500

export class Refiller {
  readonly #options: RefillerOptions
  readonly #underWay = new Set<string>()
  readonly #startedMs: number

  constructor(options: RefillerOptions) {
    this.#options = options
    this.#startedMs = options.clock.nowMs()
  }

  start(): void {
    this.#options.clock.every(tickMs, () => this.#look())
  }

  #look(): void {
    const { states, accounts, onThrown } = this.#options
    const marked = new Set(states.marked('', 100))
    for (const account of accounts) {
      const { did, status } = account
      if (this.#underWay.has(did) || status !== 'active') continue
      if (!marked.has(did) && !this.#isListed(did)) continue
      this.#underWay.add(did)
      this.#refill(account)
        .catch(onThrown)
        .finally(() => this.#underWay.delete(did))
    }
  }

  #isListed(did: string): boolean {
    const { listedAfterMs = Infinity, clock, states, watched } = this.#options
    if (clock.nowMs() - this.#startedMs < listedAfterMs) return false
    return (states.get(did)?.completeRevision ?? 0) < watched.newestAddition
  }

  async #refill(account: SimulatedAccount): Promise<void> {
    const { conditions, states, watched, ingest, ledger, clock } = this.#options
    const { did } = account
    const marksBefore = states.marks
    const contents = await this.#read(account)
    const manner = conditions.of('host')
    const waitMs = manner === 'late' ? conditions.some(500, 15_000) : conditions.some(2, 200)
    await new Promise<void>((resolve) => void clock.after(waitMs, resolve))
    if (!contents || manner === 'failing') return
    const { rev } = contents
    const onWhole = (): void => ledger.account(did).madeWhole(rev)
    const read = { ...contents, did, marksBefore, watchRevision: watched.revision }
    const outcome = await ingest.refill(read, { mayReplace: true, onWhole })
    ledger.note(`refill of ${did} at ${rev}: ${outcome.is}`)
  }

  /** What its host has of an account now. Undefined when there is nothing, or its document cannot be read. */
  async #read({ did, repo }: SimulatedAccount): Promise<Contents | undefined> {
    const { resolver, watched, clock, ledger } = this.#options
    if (repo.rev === null) return undefined
    const car = encodeCar(repo.head.cid, repo.blocks())
    const identity = await resolver.resolve(did).catch((error: unknown) => {
      if (!(error instanceof IdentityError)) throw error
    })
    if (!identity?.signingKey) return undefined
    const read = readRepoCar(car, { did, key: identity.signingKey, nowMs: clock.nowMs() })
    if (!read.ok) {
      ledger.onBroken(`the repository of ${did} is refused: ${read.reason}`)
      return undefined
    }
    const { rev, data, records } = read
    return { rev, data, records: records.filter(({ collection }) => watched.has(collection)) }
  }
}
