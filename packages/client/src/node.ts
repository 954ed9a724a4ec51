/** The client for Node: everything of `@tributary/client`, on Node's own zstd, hashing and sockets, and file cursors. */
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
export { plainEvent } from './row-event.ts'
export { StreamError, type StreamErrorCode } from './errors.ts'
export { CursorFileError, FileCursorStore } from './file-cursor-store.ts'
export { createStreamClient } from './node-client.ts'
export type { DownloadProgress, ReconnectReason, StreamStatus } from './status.ts'
