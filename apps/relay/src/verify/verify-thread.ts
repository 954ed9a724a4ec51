/** A thread that verifies commits and syncs, batch by batch. It knows keys and nothing else. */
import { parentPort } from 'node:worker_threads'
import type { SigningKey } from '@tributary/repo-verify'
import { Verifier } from './verifier.ts'
import type { VerifyReply, VerifyRequest } from './verify-messages.ts'

/** Keys that are kept. When there are more, all are dropped: an event without its key comes back as `missing-key`. */
const keysMax = 200_000
const keys = new Map<string, SigningKey>()
const verifier = new Verifier()

// What loading took is given back, where Node lets programs do so (`--expose-gc`).
globalThis.gc?.({ type: 'major', flavor: 'last-resort' })

parentPort?.on('message', ({ buffer, ends, dids, keys: newKeys, strict }: VerifyRequest) => {
  if (keys.size + newKeys.length > keysMax) keys.clear()
  for (const [did, key] of newKeys) keys.set(did, key)
  let start = 0
  const verdicts = ends.map((end, i) => {
    const frame = Buffer.from(buffer, start, end - start)
    start = end
    return verifier.verify(frame, keys.get(dids[i] ?? ''), strict[i] ?? true)
  })
  const reply: VerifyReply = { buffer, verdicts }
  parentPort?.postMessage(reply, [buffer])
})
