/** What a running iteration is doing, for logs, progress bars and health checks. None of it needs an answer. */
export type StreamStatus =
  | { type: 'planning'; afterSeq: number }
  | DownloadProgress
  | { type: 'connecting'; cursor: number | undefined }
  /** The subscription is open. Events up to the tip follow first, then new ones as they happen. */
  | { type: 'live'; cursor: number | undefined }
  /** Something failed and is tried again after `delayMs`. `attempt` counts failures since the last progress. */
  | {
      type: 'reconnecting'
      reason: ReconnectReason
      detail: string
      delayMs: number
      attempt: number
      cursor: number
    }
  /** The cursor is older than what the subscription can replay; the archive fills the gap. */
  | { type: 'refilling'; cursor: number }
  /** Compressed messages were asked for, and cannot be had: they come plain. */
  | { type: 'uncompressed'; detail: string }
  /** A notice of the server, such as `OutdatedCursor`. */
  | { type: 'info'; name: string; message: string | undefined }
  /** Something that cannot be decoded was skipped. `seq` is undefined when it could not be read. */
  | { type: 'malformed'; source: 'archive' | 'live'; seq: number | undefined; detail: string }

/** After every decoded block: how far the archive has been read, and how far it will be. */
export interface DownloadProgress {
  type: 'downloading'
  segment: string
  /** Archive bytes read since the iteration began. */
  bytes: number
  /** How much of the planned download is done, in archive bytes, and how much it is: an estimate. */
  doneBytes: number
  /** Undefined when the server does not tell the sizes of its segments. */
  totalBytes: number | undefined
  /** Everything from `fromSeq` to `cursor` has been read; the archive part ends at `throughSeq`. */
  fromSeq: number
  cursor: number
  throughSeq: number
}

export type ReconnectReason =
  /** The archive could not be read: unreachable, busy, or rewritten meanwhile. */
  | 'archive-failed'
  /** No connection could be opened. */
  | 'connect-failed'
  /** The connection ended; `detail` has the close code and what the server said. */
  | 'closed'
  /** The server ended the stream with an error message, such as `ConsumerTooSlow`. */
  | 'server-error'
  /** A compressed message could not be read. */
  | 'undecodable'
  /** Neither a message nor a ping for the idle limit. */
  | 'idle'
  /** We closed, because the consumer was busy and this platform's sockets cannot be paused. */
  | 'consumer-busy'
