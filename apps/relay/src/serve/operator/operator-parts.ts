import type { EventLog } from '@tributary/event-log'
import type { Fanout } from '@tributary/fanout'
import type { NormalizedHost } from '@tributary/identity'
import * as shared from '@tributary/operations'
import type { DiskFloor, Operations, Procedure, Query } from '@tributary/operations'
import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { AccountRecovery } from '../../accounts/account-recovery.ts'
import type { NoticeLog } from '../../policy/notice-log.ts'
import type { PolicyStore } from '../../policy/policy-store.ts'
import type { RefusalLog } from '../../policy/refusal-log.ts'
import type { SlotKeeper } from '../../sources/slot-keeper.ts'
import type { SourceAdmin } from '../../sources/source-admin.ts'
import type { SourceSet } from '../../sources/source-set.ts'
import type { AccountTable } from '../../state/account-table.ts'

/** What operators can look at and change. */
export interface OperatorParts {
  server: XrpcServer
  operatorToken: string
  /** How sources without a mode of their own are validated. */
  validation: 'strict' | 'lenient'
  policy: PolicyStore
  operations: Operations
  sources: SourceSet
  sourceAdmin: SourceAdmin
  slots: SlotKeeper
  accounts: AccountTable
  recovery: AccountRecovery
  refusals: RefusalLog
  notices: NoticeLog
  fanout: Fanout
  log: EventLog
  diskFloor: DiskFloor
  normalize: (hostname: string) => NormalizedHost | undefined
}

export const operatorPrefix = 'network.social.stream.relay.admin.'

/** Adds a method that changes something. */
export function addProcedure<I extends object>(
  server: XrpcServer,
  name: string,
  handler: Procedure<I>,
): void {
  shared.addProcedure(server, operatorPrefix, name, handler)
}

export function addQuery<P>(server: XrpcServer, name: string, handler: Query<P>): void {
  shared.addQuery(server, operatorPrefix, name, handler)
}

export const cannotBeSource =
  'cannot be a source: it must be a public host name without a port, or one that the setting allowedPrivateHosts names'

/** @throws XrpcError 400 `InvalidRequest` */
export function normalizedHost({ normalize }: OperatorParts, hostname: string): NormalizedHost {
  const host = normalize(hostname)
  if (host) return host
  throw new XrpcError(400, 'InvalidRequest', `${hostname} ${cannotBeSource}`)
}
