/** What the ingest reports. */
import type { IdentityError } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { refusalReasons, type Message } from '@tributary/repo-verify'
import type { DroppedOpReason } from './event-rows.ts'
import type { ConnectionState } from './relay-connection.ts'

/** Why an event of the relay gives no row. Also a metric label, so the set stays small and closed. */
export const eventRefusals = [
  ...refusalReasons,
  /** The revision is not newer than what is stored: a repeat, or late. */
  'stale-rev',
  /** The same identity, account or sync event as the last one of its account. */
  'repeat',
  /** A commit of an account that is not active. Once it is, its repository is read. */
  'account-hidden',
  /** A commit that gave no rows before a kill, and rows of later commits are archived. Its repository is read again. */
  'passed-over',
  'seq-not-increasing',
  'unsupported-did',
  /** The account's document could not be read, or too much waited for it. */
  'identity-unavailable',
  /** A defect of this stream: what was thrown while the event was handled costs that event. */
  'internal-error',
] as const

export type EventRefusal = (typeof eventRefusals)[number]

/** What is known of an event that was refused. */
export interface RefusedEvent {
  kind: Message['kind']
  upstreamSeq: number
}

/** What an operator should see. */
export type IngestNotice =
  /** The relay no longer has events that we have not seen. */
  | { is: 'outdated-cursor'; cursor: number; message: string }
  /** Another relay than before is read. Whether it has all events since the last one that was seen is not known. */
  | { is: 'relay-changed'; before: string; now: string }
  /** The same is true of a relay that began again. */
  | { is: 'numbering-restarted'; cursor: number; epoch: number }
  /** The relay's numbering began again too soon after the last time; its position is tried again later. */
  | { is: 'numbering-restart-held'; cursor: number }
  | { is: 'relay-error'; error: string; message: string }
  | { is: 'unresolved'; did: Did; error: IdentityError }
  /** An event that said how an account is was lost, and the relay says it when it is asked. */
  | { is: 'account-corrected'; did: string; active: boolean; status: string | undefined }
  /** What was thrown while a message was read, or an event was handled, and the message. */
  | { is: 'internal-error'; did?: Did; upstreamSeq?: number; error: unknown; bytes: Buffer }

export interface IngestObserver {
  onEvent(kind: Message['kind']): void
  onRefused(reason: EventRefusal, did: string | undefined, detail: string, event?: RefusedEvent): void
  onOpDropped(reason: DroppedOpReason, did: string): void
  /** A commit did not continue what is stored of its repository. */
  onDiscontinuity(did: string): void
  /** An account was taken down. What is stored with the states as they are now is stored with that. */
  onTakedown?(did: string): void
  /** An account is active, has another identity, or writes though it was never read as a whole, and its state says so. */
  onActive?(did: string): void
  onState(state: ConnectionState): void
  onNotice(notice: IngestNotice): void
}
