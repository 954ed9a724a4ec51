/**
 * What operators change while a service runs: each change is stored in one transaction with who asked for it, and a
 * request that is repeated is not done again. Also the shape of the methods for it, which relay and stream share.
 *
 * `@tributary/operations/logs` has tables of what happened, for operators to read.
 *
 * Elsewhere: what there is to change (the apps), who is an operator (`requireOperatorToken` of `@tributary/xrpc`).
 */
export { DiskFloor, type DiskFloorOptions } from './disk-floor.ts'
export { refuseUnknownWord } from './known-word.ts'
export {
  Operations,
  operationsSchema,
  type AuditRow,
  type Change,
  type OperationRequest,
} from './operations.ts'
export {
  addAuditMethod,
  addProcedure,
  addQuery,
  datetime,
  pageOf,
  parseIdCursor,
  type Page,
  type Procedure,
  type Query,
} from './operator-methods.ts'
