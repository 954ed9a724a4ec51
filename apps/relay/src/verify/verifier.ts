import {
  CheckedTrees,
  verifyEvent,
  type Refusal,
  type SigningKey,
  type VerifiedCommit,
  type VerifiedSync,
} from '@tributary/repo-verify'
import { collectionsOf } from './collections-of.ts'
import type { Verified } from './verified.ts'

/** Verifies commits and syncs one by one, and remembers which trees it has checked. One per thread. */
export class Verifier {
  readonly #checkedTrees = new CheckedTrees()
  readonly #nowMs: () => number

  constructor(nowMs: () => number = () => Date.now()) {
    this.#nowMs = nowMs
  }

  /** @param strict whether the source is held to Sync 1.1. */
  verify(frame: Uint8Array, key: SigningKey | undefined, strict: boolean): Verified | Refusal {
    const event = verifyEvent(frame, { key, nowMs: this.#nowMs(), strict, checkedTrees: this.#checkedTrees })
    if (!event.ok) return event
    if (event.kind === 'commit') return verifiedCommit(event)
    if (event.kind === 'sync') return verifiedSync(event)
    return { ok: false, reason: 'malformed-event', detail: `a ${event.kind} event was taken for a commit` }
  }
}

function verifiedCommit(event: VerifiedCommit): Verified {
  const { did, rev, since, commit, data, prevData } = event
  const waived = event.waived.length > 0 ? event.waived : undefined
  const collections = collectionsOf(event)
  return {
    ok: true,
    kind: 'commit',
    did,
    rev,
    since,
    commit,
    data,
    prevData,
    collections,
    waived,
  }
}

function verifiedSync({ did, rev, commit, data }: VerifiedSync): Verified {
  const nothing = { since: undefined, prevData: undefined, collections: '', waived: undefined }
  return { ok: true, kind: 'sync', did, rev, commit, data, ...nothing }
}
