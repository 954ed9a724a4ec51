import type { IdentityError } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { RefusalReason } from '@tributary/repo-verify'
import type { OnRefused } from '../refusals.ts'
import type { PauseReason } from '../sources/read-gate.ts'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import type { Account } from '../state/account.ts'

/** Told of what the pipeline meets. */
export interface PipelineObserver {
  onReceived: (source: Source, type: string, bytes: number) => void
  onRefused: OnRefused
  /** An event said what is known already, which is nobody's fault. */
  onRepeated: (source: Source, event: UpstreamEvent) => void
  /** A lenient source was let off a rule. */
  onWaived: (source: Source, reason: RefusalReason) => void
  /** A commit passed that does not continue what is stored. */
  onDiscontinuity: (source: Source) => void
  /** How long a record took from being appended to being durable, in milliseconds, for about one in each sync. */
  onDurable: (tookMs: number) => void
  /** Reading a DID document failed. It is tried again while the lane waits. */
  onIdentityFault: (did: Did, error: IdentityError) => void
  /** Whether an account is shown may have changed. */
  onStatus: (account: Account) => void
  /** A source should not be read for now, or may be again. */
  onPaused: (source: Source, reason: PauseReason, isPaused: boolean) => void
  /** A defect of ours cost an event, which is refused as `internal-error`. `bytes` are the message. */
  onInternalError: (source: Source, error: unknown, bytes: Buffer, event?: UpstreamEvent) => void
}
