import type { StreamEvent } from '@tributary/protocol'

/** One shape for what comes from the archive and what comes live. */
export type ClientEvent = StreamEvent

/** Events that should have been delivered and cannot be read. */
export interface StreamGap {
  source: 'archive' | 'live'
  /** The events that are missing come after this seq. */
  afterSeq: number
  /** The last seq that may be missing. Undefined when a live message did not even show its seq. */
  throughSeq: number | undefined
  detail: string
}

/** Events in seq order. */
export interface StreamBatch {
  /** May be empty, when the cursor moved over events that do not match. */
  events: ClientEvent[]
  /** What is missing between the cursor of the batch before and this one. Nearly always empty. */
  gaps: readonly StreamGap[]
  /** Everything that matches up to here has been delivered: save it once the batch is dealt with. */
  cursor: number
  /** False for what came from the archive. */
  live: boolean
}
