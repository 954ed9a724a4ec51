import type { Did, Tid } from '@tributary/protocol'
import type { Digest, RefusalReason } from '@tributary/repo-verify'

/** What the main thread needs to know of a verified commit or sync. */
export interface Verified {
  ok: true
  kind: 'commit' | 'sync'
  /** The account whose key signed it. */
  did: Did
  rev: Tid
  since: Tid | null | undefined
  commit: Digest
  data: Digest
  prevData: Digest | undefined
  /** Collections of the records that a commit creates or updates, each once, as one text with spaces between. */
  collections: string
  /** What strict mode would have refused. Undefined when that is nothing. */
  waived: readonly RefusalReason[] | undefined
}
