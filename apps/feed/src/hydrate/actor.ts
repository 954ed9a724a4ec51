/** Who an entry is by or about (feed.md section 10). */
import type { ActorSource } from '@tributary/index-store'
import { isHandle, type Did, type Handle } from '@tributary/protocol'

export interface ActorSummary {
  readonly did: Did
  readonly handle?: Handle
  readonly displayName?: string
  /** A member of the lexicon's avatar union. */
  readonly avatar?: object
}

/**
 * The summary of one account. One profile gives both name and avatar: the attested one if it says anything at all, else
 * the social one. Gaps of the chosen profile are not filled from the other.
 */
export function summarizeActor(did: Did, { handle, attested, social }: ActorSource): ActorSummary {
  const profile = attested ?? social
  return {
    did,
    ...(isHandle(handle) ? { handle } : {}),
    ...(profile === undefined ? {} : (JSON.parse(profile) as object)), // the index prepared an object
  }
}
