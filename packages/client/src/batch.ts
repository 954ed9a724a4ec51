import type { StreamEvent } from '@tributary/protocol'

/** One shape for what comes from the archive and what comes live. */
export type ClientEvent = StreamEvent

/** Events in seq order. */
export interface StreamBatch {
  /** May be empty, when the cursor moved over events that do not match. */
  events: ClientEvent[]
  /** Everything that matches up to here has been delivered: save it once the batch is dealt with. */
  cursor: number
  /** False for what came from the archive. */
  live: boolean
}
