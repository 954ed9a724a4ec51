import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { OperationRequest, Operations } from './operations.ts'

/** What every procedure may be given besides. */
interface Asked {
  actor?: string
  idempotencyKey?: string
}

export interface Page {
  limit: number
  cursor?: string
}

/** Carries out what a procedure is asked for. */
export type Procedure<I> = (input: I, request: OperationRequest) => unknown
export type Query<P> = (params: P) => unknown

/**
 * Adds a method that changes something: who asks, and the key of the request, are handed over apart from its input.
 * @param prefix of the NSIDs of all methods of the service's operators, with its dot.
 */
export function addProcedure<I extends object>(
  server: XrpcServer,
  prefix: string,
  name: string,
  handler: Procedure<I>,
): void {
  server.procedure<unknown, I & Asked>(`${prefix}${name}`, async ({ input }) => {
    const { actor = 'operator', idempotencyKey, ...rest } = input
    // What is left of an input without those two is an I.
    return await handler(rest as unknown as I, { operation: name, actor, idempotencyKey, input: rest })
  })
}

export function addQuery<P>(server: XrpcServer, prefix: string, name: string, handler: Query<P>): void {
  server.query<P>(`${prefix}${name}`, ({ params }) => handler(params))
}

/** Adds `listAudit`: what was changed and by whom, newest first. */
export function addAuditMethod(server: XrpcServer, prefix: string, operations: Operations): void {
  addQuery<Page>(server, prefix, 'listAudit', ({ limit, cursor }) => {
    const rows = operations.audit(limit + 1, parseIdCursor(cursor, Number.MAX_SAFE_INTEGER))
    const { page, ...rest } = pageOf(rows, limit, ({ id }) => id)
    return {
      audit: page.map(({ atMs, before, after, ...row }) => ({
        ...row,
        ...datetime('at', atMs),
        ...(before !== null && { before }),
        ...(after !== null && { after }),
      })),
      ...rest,
    }
  })
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

/** Reads a cursor that is the id of the last row of the page before. @throws XrpcError 400 `InvalidRequest` */
export function parseIdCursor(cursor: string | undefined, first = 0): number {
  if (cursor === undefined) return first
  if (!/^\d{1,15}$/.test(cursor))
    throw new XrpcError(400, 'InvalidRequest', 'cursor is not one that this method returned')
  return Number(cursor)
}
