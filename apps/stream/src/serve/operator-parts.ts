import type { Fanout } from '@tributary/fanout'
import type { Operations } from '@tributary/operations'
import type { Logger } from '@tributary/telemetry'
import type { XrpcServer } from '@tributary/xrpc'
import type { Archive } from '../archive/archive.ts'
import type { Backups } from '../archive/backups.ts'
import type { BackfillStore } from '../backfill/backfill-store.ts'
import type { OpenBackfill } from '../backfill/open-backfill.ts'
import type { Compaction } from '../compaction/compaction.ts'
import type { RepoStates } from '../ingest/repo-states.ts'
import type { ApiKeys } from '../policy/api-keys.ts'
import type { RefusalLog } from '../policy/refusal-log.ts'
import type { WatchedCollections } from '../policy/watched-collections.ts'

/** What operators can look at and change. */
export interface OperatorParts {
  server: XrpcServer
  operatorToken: string
  archive: Archive
  watched: WatchedCollections
  operations: Operations
  backfill: OpenBackfill
  store: BackfillStore
  states: RepoStates
  keys: ApiKeys
  compaction: Compaction
  fanout: Fanout
  refusals: RefusalLog
  backups: Backups
  logger: Logger
}

export const operatorPrefix = 'network.social.stream.admin.'
