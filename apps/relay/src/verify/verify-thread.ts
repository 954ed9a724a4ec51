/** A thread that verifies commits and syncs, batch by batch. It knows keys and nothing else. */
import { parentPort } from 'node:worker_threads'
import {
  CheckedTrees,
  verifyEvent,
  type SigningKey,
  type VerifiedCommit,
  type VerifiedSync,
} from '@tributary/repo-verify'
import { collectionsOf } from './collections-of.ts'
import type { Verdict, Verified, VerifyReply, VerifyRequest } from './verify-messages.ts'

/** Keys that are kept. When there are more, all are dropped: an event without its key comes back as `missing-key`. */
const keysMax = 200_000
const keys = new Map<string, SigningKey>()
const checkedTrees = new CheckedTrees()

parentPort?.on('message', ({ buffer, ends, dids, keys: newKeys, strict }: VerifyRequest) => {
  if (keys.size + newKeys.length > keysMax) keys.clear()
  for (const [did, key] of newKeys) keys.set(did, key)
  const nowMs = Date.now()
  let start = 0
  const verdicts = ends.map((end, i): Verdict => {
    const frame = Buffer.from(buffer, start, end - start)
    start = end
    const options = { key: keys.get(dids[i] ?? ''), nowMs, strict: strict[i] ?? true, checkedTrees }
    const event = verifyEvent(frame, options)
    if (!event.ok) return event
    if (event.kind !== 'commit' && event.kind !== 'sync') {
      return { ok: false, reason: 'malformed-event', detail: `a ${event.kind} event was taken for a commit` }
    }
    return event.kind === 'commit' ? verifiedCommit(event) : verifiedSync(event)
  })
  const reply: VerifyReply = { buffer, verdicts }
  parentPort?.postMessage(reply, [buffer])
})

function verifiedCommit(event: VerifiedCommit): Verified {
  const { rev, since, commit, data, prevData, seqStart, seqEnd } = event
  const waived = event.waived.length > 0 ? event.waived : undefined
  const collections = collectionsOf(event)
  return {
    ok: true,
    kind: 'commit',
    rev,
    since,
    commit,
    data,
    prevData,
    collections,
    waived,
    seqStart,
    seqEnd,
  }
}

function verifiedSync({ rev, commit, data, seqStart, seqEnd }: VerifiedSync): Verified {
  const nothing = { since: undefined, prevData: undefined, collections: '', waived: undefined }
  return { ok: true, kind: 'sync', rev, commit, data, ...nothing, seqStart, seqEnd }
}
