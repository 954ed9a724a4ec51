import type { EventLog } from '@tributary/event-log'
import type { Fanout } from '@tributary/fanout'
import type { NormalizedHost } from '@tributary/identity'
import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { AccountRecovery } from '../../accounts/account-recovery.ts'
import type { NoticeLog } from '../../policy/notice-log.ts'
import type { Operations, OperationRequest } from '../../policy/operations.ts'
import type { PolicyStore } from '../../policy/policy-store.ts'
import type { RefusalLog } from '../../policy/refusal-log.ts'
import type { DiskFloor } from '../../sources/disk-floor.ts'
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

/** What every procedure may be given besides. */
interface Asked {
  actor?: string
  idempotencyKey?: string
}

export interface Page {
  limit: number
  cursor?: string
}

type Change<I> = (input: I, request: OperationRequest) => unknown
type Look<P> = (params: P) => unknown

/** Adds a method that changes something: who asks, and the key of the request, are handed over apart from its input. */
export function addProcedure<I extends object>(server: XrpcServer, name: string, handler: Change<I>): void {
  server.procedure<unknown, I & Asked>(`${operatorPrefix}${name}`, async ({ input }) => {
    const { actor = 'operator', idempotencyKey, ...rest } = input
    // What is left of an input without those two is an I.
    return await handler(rest as unknown as I, { operation: name, actor, idempotencyKey, input: rest })
  })
}

export function addQuery<P>(server: XrpcServer, name: string, handler: Look<P>): void {
  server.query<P>(`${operatorPrefix}${name}`, ({ params }) => handler(params))
}

/** One page of rows that were asked for with one more than the limit. */
export function pageOf<T>(
  rows: T[],
  limit: number,
  cursorOf: (row: T) => string | number,
): { page: T[]; cursor?: string } {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return rows.length > limit && last !== undefined ? { page, cursor: String(cursorOf(last)) } : { page }
}

/** A time as the wire has it; nothing for one that never was. */
export function datetime<K extends string>(name: K, ms: number): { [key in K]?: string } {
  return (ms > 0 ? { [name]: new Date(ms).toISOString() } : {}) as { [key in K]?: string } // of that key
}

/** @throws XrpcError 400 `InvalidRequest` */
export function normalizedHost({ normalize }: OperatorParts, hostname: string): NormalizedHost {
  const host = normalize(hostname)
  if (host) return host
  const message = `${hostname} is not a host name that can be a source; private hosts have to be in allowedPrivateHosts`
  throw new XrpcError(400, 'InvalidRequest', message)
}
