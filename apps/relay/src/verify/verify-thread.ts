/** A thread that verifies commits and syncs, batch by batch. It knows keys and nothing else. */
import { parentPort } from 'node:worker_threads'
import { CheckedTrees, verifyEvent, type SigningKey } from '@tributary/repo-verify'
import type { Verdict, VerifyReply, VerifyRequest } from './verify-messages.ts'

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
    const event = verifyEvent(frame, { key: keys.get(dids[i] ?? ''), nowMs, strict, checkedTrees })
    if (!event.ok) return event
    if (event.kind !== 'commit' && event.kind !== 'sync') {
      return { ok: false, reason: 'malformed-event', detail: `a ${event.kind} event was taken for a commit` }
    }
    const { kind, rev, commit, data, seqStart, seqEnd } = event
    const chain =
      event.kind === 'commit'
        ? { since: event.since, prevData: event.prevData }
        : { since: undefined, prevData: undefined }
    return { ok: true, kind, rev, commit, data, seqStart, seqEnd, ...chain }
  })
  const reply: VerifyReply = { buffer, verdicts }
  parentPort?.postMessage(reply, [buffer])
})
