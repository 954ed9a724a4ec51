import type { AccountBound, AccountMessage, IdentityMessage, SignedMessage } from '@tributary/repo-verify'
import type { Account } from '../state/account.ts'
import type { Source } from './source.ts'

/**
 * What of a message goes through the pipeline. Commits and syncs are read where they are verified: what they say would
 * only make those that are under way heavy.
 */
export type RoutedMessage =
  | IdentityMessage
  | AccountMessage
  | Pick<SignedMessage, 'kind' | 'did' | 'bytes' | 'seqStart' | 'seqEnd'>

/** Why what an event waited for did not come. */
export type WaitFault = 'identity-not-found' | 'identity-unavailable' | 'internal-error'

/** One message of a source on its way through the pipeline. */
export interface UpstreamEvent {
  readonly source: Source
  /** The account that the message is of, and that it is verified, stored and sent as. */
  readonly account: Account
  readonly message: RoutedMessage
  readonly receipt: Receipt
  /** The identity must come from a document fetched after the event was received. */
  needsFreshKey: boolean
  /** It is an `#identity`, or an `#account` with news, for which a new look at the document was asked. */
  hasAskedAnew: boolean
  /** What the account's own host says of it, asked because another relay claims it. `unknown` when it did not answer. */
  confirmedStatus: string | undefined
  /** Whether the account's own host has to be asked for its status before the event is tried again, or has been. */
  statusCheck: 'none' | 'wanted' | 'asked'
  /** Why what it waited for did not come. */
  waitFault: WaitFault | undefined
}

/** Where a message stands in the order of its source, until the source's cursor has passed it. */
export interface Receipt {
  readonly epoch: number
  /** 0 for an event that the relay made itself, of what it fetched from the account's host. */
  readonly upstreamSeq: number
  /** When it was received, in milliseconds since 1970. Put right when the clock was set back and the event has to wait. */
  receivedAtMs: number
  /**
   * Its place among all events that came to this process, of whichever source. For an event that the relay made itself:
   * the place of the newest when the account's host was asked.
   */
  readonly place: number
  /** The event, while it is not done. */
  event: UpstreamEvent | undefined
  /** `undefined` while under way. Done otherwise: 0 when nothing of it is in the log, else the seq of its record. */
  loggedAs: number | undefined
  /** Our seq that has to be durable before the source's cursor may pass the event, when it is done. */
  doneBy: number
}

/** An event that begins its way. @param upstreamSeq 0 for one that the relay made itself. @param place as in `Receipt`. */
export function newEvent(
  source: Source,
  account: Account,
  message: AccountBound,
  receivedAtMs: number,
  upstreamSeq: number = message.upstreamSeq,
  place = 0,
): UpstreamEvent {
  const epoch = upstreamSeq === 0 ? 0 : source.epoch
  const open = { event: undefined, loggedAs: undefined, doneBy: 0 }
  const receipt: Receipt = { epoch, upstreamSeq, receivedAtMs, place, ...open }
  const event: UpstreamEvent = {
    source,
    account,
    message: routed(message),
    receipt,
    needsFreshKey: false,
    hasAskedAnew: false,
    confirmedStatus: undefined,
    statusCheck: 'none',
    waitFault: undefined,
  }
  receipt.event = event
  account.underWay++
  return event
}

function routed(message: AccountBound): RoutedMessage {
  const { kind, did, bytes, seqStart, seqEnd } = message
  return kind === 'identity' || kind === 'account' ? message : { kind, did, bytes, seqStart, seqEnd }
}

/** An event that is done. Its bytes are not needed any more. @param loggedAs, doneBy as in `Receipt`. */
export function finish(
  { account, receipt }: UpstreamEvent,
  loggedAs: number,
  doneBy: number = loggedAs,
): void {
  receipt.event = undefined
  receipt.loggedAs = loggedAs
  receipt.doneBy = doneBy
  account.underWay--
}
