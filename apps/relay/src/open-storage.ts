import { join } from 'node:path'
import type { EventLog } from '@tributary/event-log'
import { makeDirectory } from '@tributary/settings'
import type { Logger } from '@tributary/telemetry'
import type { Clock } from './clock.ts'
import { openLog } from './open-log.ts'
import { NoticeLog } from './policy/notice-log.ts'
import { PolicyStore } from './policy/policy-store.ts'
import { RefusalLog } from './policy/refusal-log.ts'
import { limitsOf } from './policy/relay-limits.ts'
import type { RelaySettings } from './settings.ts'
import { SourceSet } from './sources/source-set.ts'
import { DatabaseWriter } from './state/database-writer.ts'
import { recoverState } from './state/recover-state.ts'
import { resetState } from './state/reset-state.ts'
import { openStateFile, StateStore } from './state/state-store.ts'
import { StateTrail } from './state/state-trail.ts'

/** What a relay keeps in its data directory. */
export interface RelayStorage {
  log: EventLog
  store: StateStore
  policy: PolicyStore
  refusals: RefusalLog
  notices: NoticeLog
  sources: SourceSet
  /** Writes to the state what is durable in the log. */
  trail: StateTrail
}

/**
 * Opens what a relay has stored, and folds into the state what only the log has.
 * @param onSync told how long each sync of the log took.
 * @param fail told that the log or the state cannot be written any more.
 * @param resources closes all of it.
 */
export async function openStorage(
  settings: RelaySettings,
  options: {
    logger: Logger
    clock: Clock
    onSync: (ms: number) => void
    fail: (error: Error) => void
  },
  resources: AsyncDisposableStack,
): Promise<RelayStorage> {
  const { logger, clock, onSync, fail } = options
  const nowMs = (): number => clock.nowMs()
  makeDirectory(settings.dataDirectory)
  const fileOf = (name: string): string => join(settings.dataDirectory, `${name}.sqlite`)

  // The log comes first, because it keeps a second relay out of the directory.
  const log = await openLog(settings, onSync)
  resources.defer(() => log.close())
  log.onFailure(fail)
  if (settings.rebuildState) resetState(fileOf('state'), nowMs())
  const writer = new DatabaseWriter()
  resources.defer(() => writer.close())
  const store = new StateStore(openStateFile(fileOf('state'), writer))
  resources.defer(() => store.close())
  store.onFailure(fail)
  // The next start folds into the state what only the log has, also after a power cut.
  log.keepAbove(() => store.syncedSeq)
  const policy = new PolicyStore(fileOf('policy'), limitsOf(settings))
  resources.defer(() => policy.close())
  if (settings.rebuildState) policy.forgetPositions()
  const notices = new NoticeLog(writer.notices(fileOf('notices')), { logger, fail, nowMs })
  resources.defer(() => notices.close())
  const refusals = new RefusalLog(writer.refusals(fileOf('refusals')), fail)
  resources.defer(() => refusals.close())
  const sources = new SourceSet(policy, store.sources, nowMs)
  const trail = new StateTrail(store, () => sources.sources, clock)
  resources.defer(() => trail.close())
  // A record of an account that an operator hides does not say whether there was a slot for it.
  store.accounts.quotaOf = (sourceId) => sources.quotaOf(sourceId)
  const { folded, unreadable, firstUnreadableSeq } = await recoverState({ log, store, sources, trail })
  if (unreadable > 0)
    logger.warn(
      { unreadable, firstUnreadableSeq },
      'records of the log that an older version let through were left out of the state',
    )
  logger.info(
    { folded, headSeq: log.visibleSeq, nextSeq: log.nextSeq, accounts: store.accounts.size },
    'state is up to the log',
  )
  log.onDurable((seq) => trail.durable(seq))
  return { log, store, policy, refusals, notices, sources, trail }
}
