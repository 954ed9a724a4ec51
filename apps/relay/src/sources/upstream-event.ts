import type { AccountBound } from '@tributary/repo-verify'
import type { Source } from './source.ts'

/** One message of a source on its way through the pipeline. */
export interface UpstreamEvent {
  readonly source: Source
  readonly epoch: number
  /** 0 for an event that the relay made itself, of what it fetched from the account's host. */
  readonly upstreamSeq: number
  readonly message: AccountBound
  /** When it was received, in milliseconds since 1970. */
  readonly receivedAtMs: number
  /** The signing key must come from a document fetched after the event was received. */
  needsFreshKey: boolean
  /** It is an `#identity` that has emptied the cache, so that what is read now is new. */
  hasPurged: boolean
  /** What the account's own host says of it, asked because another relay claims it. `unknown` when it did not answer. */
  confirmedStatus: string | undefined
  /** `undefined` while under way. Done otherwise: 0 when nothing of it is in the log, else the seq of its record. */
  loggedAs: number | undefined
  /** Our seq that has to be durable before the source's cursor may pass the event, when it is done. */
  doneBy: number
}

/** An event that begins its way. @param upstreamSeq 0 for one that the relay made itself. */
export function newEvent(
  source: Source,
  message: AccountBound,
  upstreamSeq: number = message.upstreamSeq,
): UpstreamEvent {
  return {
    source,
    epoch: upstreamSeq === 0 ? 0 : source.epoch,
    upstreamSeq,
    message,
    receivedAtMs: Date.now(),
    needsFreshKey: false,
    hasPurged: false,
    confirmedStatus: undefined,
    loggedAs: undefined,
    doneBy: 0,
  }
}

const noBytes = Buffer.alloc(0)

/** An event that is done, and does not need its bytes any more. @param loggedAs, doneBy as in `UpstreamEvent`. */
export function finish(event: UpstreamEvent, loggedAs: number, doneBy: number = loggedAs): void {
  event.message.bytes = noBytes
  event.loggedAs = loggedAs
  event.doneBy = doneBy
}
