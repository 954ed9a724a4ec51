/** What both entries of the client export, for browsers and for Node. */
export { Checkpoint, type CheckpointOptions, type CursorStore } from './checkpoint.ts'
export type { ClientEvent, StreamBatch, StreamGap } from './batch.ts'
export type {
  ClientOptions,
  LiveReadOptions,
  ReadOptions,
  ReplayOptions,
  SnapshotOptions,
  StreamClient,
} from './client.ts'
export { NdjsonWriter } from './ndjson.ts'
export { payloadBytesOf, plainEvent } from './row-event.ts'
export { InvalidRecordError, readRecord, type RecordSchema } from './typed-record.ts'
export type { AccountSet, Reading, ReadStats } from './reading.ts'
export { CursorStoreError, StreamError, type StreamErrorCode } from './errors.ts'
export type { DownloadProgress, ReconnectReason, StreamStatus } from './status.ts'
export { runBatches, type BatchRunnerOptions, type BatchStore } from './runner/run-batches.ts'
export { runIndexer, ParkingFullError, type RunnerOptions, type RunnerReport } from './runner/run-indexer.ts'
export type {
  DeleteEvent,
  Handler,
  HandlerContext,
  Handlers,
  PutEvent,
  RecordHandlers,
} from './runner/handlers.ts'
export {
  MemoryStore,
  type ParkedEvent,
  type ParkReason,
  type RunnerStore,
  type StoreOptions,
} from './runner/runner-store.ts'
