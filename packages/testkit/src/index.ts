/**
 * Real atproto software for tests, the demo and the benchmark, and what real software will not do:
 * hostile frames and heavy load. Never part of what is shipped. Whatever is started here is stopped
 * by its own `stop()` (or `await using`) and leaves nothing running and no file behind.
 */
export { Account, createAccount } from './account.ts'
export type { JournalEntry, Session, Write, WriteResult } from './account.ts'
export { freePort } from './free-port.ts'
export { Labeler, startLabeler } from './labeler.ts'
export type { ListedLabel } from './labeler.ts'
export { migrateAccount } from './migrate-account.ts'
export { Network, startNetwork } from './network.ts'
export type { NetworkOptions } from './network.ts'
export { Pds, startPds, startPdsProcess } from './pds.ts'
export type { ListedRecord, ListedRepo, PdsOptions } from './pds.ts'
export { startPlc } from './plc.ts'
export type { Plc } from './plc.ts'
export { createDid, tombstoneDid, updateDid } from './plc-identity.ts'
export type { PlcData } from './plc-identity.ts'
export { ServiceProcess, startProcess } from './service-process.ts'
export type { ProcessExit, ProcessOptions } from './service-process.ts'
export { callProcedure, callQuery, fetchBytes, xrpcUrl, XrpcCallError } from './xrpc-call.ts'
export type { XrpcCall } from './xrpc-call.ts'
