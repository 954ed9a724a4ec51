/** A thread that verifies commits and syncs, batch by batch. It knows keys, and which collections are watched. */
import { CheckedTrees, verifyEvent } from '@tributary/repo-verify'
import { serveVerification } from '@tributary/verify-pool'
import { verdictText } from './verdict-text.ts'
import type { Good } from './verified.ts'

let collections: ReadonlySet<string> = new Set()
const checkedTrees = new CheckedTrees()
const isWanted = (collection: string): boolean => collections.has(collection)

serveVerification<Good>({
  verify(bytes, key, strict) {
    const event = verifyEvent(bytes, { key, nowMs: Date.now(), strict, isWanted, checkedTrees })
    if (!event.ok || event.kind === 'commit' || event.kind === 'sync') return event
    return { ok: false, reason: 'malformed-event', detail: `a ${event.kind} event was taken for a commit` }
  },
  write: verdictText,
  onPolicy: (watched) => (collections = watched as ReadonlySet<string>), // what the main thread gives
})
