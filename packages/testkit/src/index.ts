/**
 * Real atproto software for tests, the demo and the benchmark, and what real software will not do:
 * hostile frames and heavy load. Never part of what is shipped. Whatever is started here is stopped
 * by its own `stop()` (or `await using`) and leaves nothing running and no file behind.
 */
export { Account, createAccount } from './account.ts'
export type { JournalEntry, Session, Write, WriteResult } from './account.ts'
export { answerRequests, reportReady } from './child-requests.ts'
export { commitBody, encodeCar, encodeError, encodeEvent, syncBody } from './commit-event.ts'
export type { EventBody } from './commit-event.ts'
export type { CountReport } from './count-reader.ts'
export { createLoad, measuredLoad } from './create-load.ts'
export { eventually, inTime } from './eventually.ts'
export { firehoseClients } from './firehose-clients.ts'
export type { FirehoseClient, FirehoseOptions, OpenFirehose, SeenEvent } from './firehose-clients.ts'
export { freePort } from './free-port.ts'
export { HostConnection } from './host-connection.ts'
export { hostileKinds, hostileMessage } from './hostile-message.ts'
export type { HostileContext, HostileKind } from './hostile-message.ts'
export { Labeler, startLabeler } from './labeler.ts'
export type { ListedLabel } from './labeler.ts'
export { Load, eventIndexOf, readLoadInfo, revAt } from './load-file.ts'
export type { LoadAccount, LoadInfo, LoadParameters } from './load-file.ts'
export type { PlayOptions } from './load-replay.ts'
export { migrateAccount } from './migrate-account.ts'
export { Network, startNetwork } from './network.ts'
export type { NetworkOptions } from './network.ts'
export { Pds, startPds, startPdsProcess } from './pds.ts'
export type { ListedRecord, ListedRepo, PdsOptions } from './pds.ts'
export { startPlc } from './plc.ts'
export type { Plc } from './plc.ts'
export { createDid, tombstoneDid, updateDid } from './plc-identity.ts'
export type { PlcData } from './plc-identity.ts'
export {
  freeTextFields,
  recordVectors,
  sampleCollections,
  sampleRecord,
  sampleRkey,
  singleRecordCollections,
} from './sample-record.ts'
export type { JsonRecord, RecordVectors } from './sample-record.ts'
export { ScriptedAccount } from './scripted-account.ts'
export type { AccountHome, EmittedWrite, InactiveStatus } from './scripted-account.ts'
export { ScriptedHost, startScriptedHost } from './scripted-host.ts'
export type { HostAnswer, ScriptedHostOptions } from './scripted-host.ts'
export { rotateSigningKey } from './rotate-signing-key.ts'
export { LoadHost, registerLoad, serveLoad } from './serve-load.ts'
export type { ServeLoadOptions } from './serve-load.ts'
export { ServiceProcess, startProcess } from './service-process.ts'
export type { ProcessExit, ProcessOptions } from './service-process.ts'
export { SignedRepo } from './signed-repo.ts'
export type { RepoOp, RepoWrite, SignedCommit } from './signed-repo.ts'
export { Signer } from './signer.ts'
export { CountReader, delaysMs, percentile, startCountReader } from './start-count-reader.ts'
export type { CountReaderOptions } from './start-count-reader.ts'
export { randomFrom } from './random.ts'
export type { Random } from './random.ts'
export { nextTid, tidAt } from './tid.ts'
export { callProcedure, callQuery, fetchBytes, xrpcUrl, XrpcCallError } from './xrpc-call.ts'
export type { XrpcCall } from './xrpc-call.ts'
