import type { IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import type { AccountCorrections } from '../ingest/account-corrections.ts'
import type { Ingest } from '../ingest/ingest.ts'
import type { RepoStates } from '../ingest/repo-states.ts'
import type { StreamMetrics } from '../metrics.ts'
import type { WatchedCollections } from '../policy/watched-collections.ts'
import type { StreamSettings } from '../settings.ts'
import type { StateDatabase } from '../state-database.ts'
import { Backfill } from './backfill.ts'
import type { BackfillStore } from './backfill-store.ts'
import { HostRequests } from './host-requests.ts'
import { RepoFill } from './repo-fill.ts'
import { RepoReader } from './repo-reader.ts'

export interface BackfillParts {
  settings: StreamSettings
  database: StateDatabase
  store: BackfillStore
  states: RepoStates
  watched: WatchedCollections
  ingest: Pick<Ingest, 'hasRoom' | 'refill'>
  corrections: AccountCorrections
  resolver: IdentityResolver
  metrics: StreamMetrics
  logger: Logger
  headSeq: () => number
  onFailure: (error: Error) => void
}

/** Requests a second to the relay, which is asked for every account that is read. */
const relayRequestsPerSecond = 100

/** A backfill, and what its operators ask the relay besides. */
export type OpenBackfill = Backfill & Pick<RepoFill, 'isUnknown'>

/** A backfill with its parts, not started. Closing it ends what is under way. */
export function openBackfill(parts: BackfillParts): OpenBackfill & AsyncDisposable {
  const { settings, resolver, metrics } = parts
  const { backfillRequestsPerSecond } = settings
  const stop = new AbortController()
  const relay = new URL(settings.relayUrl.replace(/^ws/, 'http'))
  const relayUrl = relay.origin
  // Where the relay is was the operator's choice.
  const allowedPrivateHosts = [...settings.allowedPrivateHosts, relay.host]
  const requests = new HostRequests({
    allowedPrivateHosts,
    signal: stop.signal,
    paceOf: (origin) => (origin === relayUrl ? relayRequestsPerSecond : backfillRequestsPerSecond),
  })
  const reader = new RepoReader()
  const { signal } = stop
  const fill = new RepoFill({ ...parts, requests, relayUrl, reader, signal })
  const backfill = new Backfill(
    {
      ...parts,
      allowedPrivateHosts: settings.allowedPrivateHosts,
      fill,
      requests,
      relayUrl,
      hostOf: (did) => resolver.peek(did)?.pdsHost ?? '',
      settleMs: settings.backfillSettleSeconds * 1000,
      onRepo: (outcome) => metrics.repoRead(outcome),
    },
    stop,
  )
  return Object.assign(backfill, {
    isUnknown: async (did: Did) => await fill.isUnknown(did),
    async [Symbol.asyncDispose]() {
      await backfill.close()
      await reader.close()
    },
  })
}
