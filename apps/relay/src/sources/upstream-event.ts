import type { Source } from './source.ts'

/** One message of a source on its way through the pipeline. */
export interface UpstreamEvent {
  readonly source: Source
  readonly epoch: number
  readonly upstreamSeq: number
  readonly type: string
  /** When it was received, in milliseconds since 1970. */
  readonly receivedAtMs: number
  /** The message. Emptied when it is done. */
  frame: Uint8Array
  /** The signing key must come from a document fetched after the event was received. */
  needsFreshKey: boolean
  /** It is an `#identity` that has emptied the cache, so that what is read now is new. */
  hasPurged: boolean
  /**
   * `undefined` while under way. Done otherwise: 0 when nothing of it is in the log, else the seq of its record, which
   * has to be durable before the source's cursor may pass the event.
   */
  loggedAs: number | undefined
}
