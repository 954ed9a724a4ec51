import type { Identity } from '@tributary/identity'
import {
  isSigned,
  trustMessage,
  verifyMessage,
  type AccountBound,
  type AccountMessage,
  type CheckedTrees,
  type IdentityMessage,
  type IsWanted,
  type Refusal,
  type VerifiedCommit,
  type VerifiedSync,
} from '@tributary/repo-verify'

/** What an event says, or why it is refused. */
export type Verdict = VerifiedCommit | VerifiedSync | IdentityMessage | AccountMessage | Refusal

/** What is to be done with an event: a verdict, or an identity to be read first, after a moment in ms since 1970. */
export type Check = { verdict: Verdict } | { readIdentityAfter: number }

/** The form of an event of a relay that is trusted. Its operations stand alone. */
export function trustEvent(message: AccountBound, isWanted: IsWanted): Verdict {
  return isSigned(message) ? trustMessage(message, isWanted) : message
}

export interface CheckOptions {
  /** What is known of the account's identity now. */
  identity: Identity | undefined
  receivedMs: number
  nowMs: number
  isWanted: IsWanted
  checkedTrees: CheckedTrees
}

/**
 * Checks an event with the key that the DID document of its account names. A signature is refused only against a
 * document that was read after the event had arrived.
 */
export function checkEvent(
  message: AccountBound,
  { identity, receivedMs, nowMs, isWanted, checkedTrees }: CheckOptions,
): Check {
  if (!isSigned(message)) return { verdict: message }
  if (!identity) return { readIdentityAfter: 0 }
  const verdict = verifyMessage(message, {
    key: identity.signingKey,
    nowMs,
    strict: true,
    isWanted,
    checkedTrees,
  })
  const isKeyRefusal = !verdict.ok && (verdict.reason === 'bad-signature' || verdict.reason === 'missing-key')
  return isKeyRefusal && identity.fetchedAt < receivedMs ? { readIdentityAfter: receivedMs } : { verdict }
}
