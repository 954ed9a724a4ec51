/** The backfill as `open-backfill.ts` of the stream wires it, on virtual time and without sockets. */
// oxlint-disable-next-line import/no-unassigned-import -- it is what a thread runs
import '../../src/backfill/repo-thread.ts'
import type { IdentityResolver } from '@tributary/identity'
import type { Logger } from '@tributary/telemetry'
import type { ProcessClock } from '@tributary/testkit/simulation'
import { Backfill } from '../../src/backfill/backfill.ts'
import { BackfillStore } from '../../src/backfill/backfill-store.ts'
import { HostRequests } from '../../src/backfill/host-requests.ts'
import { RepoFill } from '../../src/backfill/repo-fill.ts'
import { RepoReader } from '../../src/backfill/repo-reader.ts'
import type { Ingest } from '../../src/ingest/ingest.ts'
import type { RepoStates } from '../../src/ingest/repo-states.ts'
import type { WatchedCollections } from '../../src/policy/watched-collections.ts'
import type { CommitAndSync, StateDatabase } from '../../src/state-database.ts'
import { hostAnswers } from './host-answers.ts'
import type { Ledger } from './ledger.ts'
import type { World } from './stream-process.ts'

interface BackfillParts {
  world: World
  clock: ProcessClock
  database: StateDatabase
  commit: CommitAndSync
  states: RepoStates
  watched: WatchedCollections
  ingest: Pick<Ingest, 'hasRoom' | 'refill'>
  resolver: IdentityResolver
  headSeq: () => number
  ledger: Ledger
  logger: Logger
  onFailure: (error: Error) => void
}

export interface OpenBackfill {
  backfill: Backfill
  store: BackfillStore
  /** Ends what is under way. */
  close: () => Promise<void>
  /** The process is gone. */
  kill: () => void
}

export function openBackfill(parts: BackfillParts): OpenBackfill {
  const { world, clock, database, commit, states, watched, resolver, headSeq, ledger, logger, onFailure } =
    parts
  const { accounts, conditions, upkeep, onPoint } = world
  const relayUrl = `https://${world.relay.hostname}`
  const { listedAfterMs } = upkeep
  const stop = new AbortController()
  const { signal } = stop
  const requests = new HostRequests({
    allowedPrivateHosts: [],
    paceOf: () => 20,
    signal,
    clock,
    fetch: hostAnswers({
      accounts,
      clock,
      conditions,
      isListed: listedAfterMs !== undefined,
      onRepoAsked: () => onPoint('repo-asked'),
      onBroken: (what) => ledger.onBroken(what),
    }),
  })
  const ingest: Pick<Ingest, 'hasRoom' | 'refill'> = {
    get hasRoom() {
      return parts.ingest.hasRoom
    },
    refill: async (contents, options) => {
      const onWhole = (): void => {
        ledger.account(contents.did).whole(contents.rev)
        options.onWhole()
        onPoint('refill-ends')
      }
      onPoint('refill-begins')
      const outcome = await parts.ingest.refill(contents, { ...options, onWhole })
      ledger.note(`refill of ${contents.did} at ${contents.rev}: ${outcome.is}`)
      return outcome
    },
  }
  const reader = new RepoReader()
  const fill = new RepoFill({ ...parts, requests, relayUrl, reader, ingest, signal })
  const store = new BackfillStore(database)
  const backfill = new Backfill(
    {
      database,
      store,
      states,
      watched,
      fill,
      requests,
      relayUrl,
      allowedPrivateHosts: [],
      hostOf: (did) => resolver.peek(did)?.pdsHost ?? '',
      settleMs: listedAfterMs ?? 0,
      headSeq,
      logger,
      onRepo: (outcome) => ledger.note(`a repository is ${outcome}`),
      onFailure,
      clock,
      random: () => conditions.some(0, 1),
      commit,
    },
    stop,
  )
  return {
    backfill,
    store,
    close: async () => {
      await backfill.close()
      await reader.close()
    },
    kill: () => {
      stop.abort()
      void reader.close()
    },
  }
}
