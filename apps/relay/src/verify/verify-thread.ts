/** A thread that verifies commits and syncs, batch by batch. It knows keys and nothing else. */
import { parentPort } from 'node:worker_threads'
import type { SigningKey } from '@tributary/repo-verify'
import { verdictText } from './verdict-text.ts'
import { Verifier } from './verifier.ts'
import type { Verdict, VerifyReply, VerifyRequest } from './verify-messages.ts'

/** Keys that are kept. When there are more, all are dropped: an event without its key comes back as `missing-key`. */
const keysMax = 200_000
const keys = new Map<number, SigningKey>()
const verifier = new Verifier()

// What loading took is given back, where Node lets programs do so (`--expose-gc`).
globalThis.gc?.({ type: 'major', flavor: 'last-resort' })

parentPort?.on('message', (request: VerifyRequest) => {
  const beganMs = performance.now()
  const { buffer, ends, strict, newKeys } = request
  if (keys.size + newKeys.length > keysMax) keys.clear()
  for (const [number, key] of newKeys) keys.set(number, key)
  const bytes = Buffer.from(buffer)
  const verdictEnds: number[] = []
  const others = new Map<number, Verdict>()
  let start = 0
  let room = ends.at(-1) ?? 0
  for (const [i, end] of ends.entries()) {
    const key = keys.get(request.keys[i] ?? -1)
    const verdict = verifier.verify(bytes.subarray(start, end), key, strict[i] ?? true)
    const text = verdictText(verdict)
    if (text !== undefined && room + text.length <= bytes.length) room += bytes.write(text, room, 'latin1')
    else others.set(i, verdict)
    verdictEnds.push(room)
    start = end
  }
  const reply: VerifyReply = { buffer, verdictEnds, others, tookMs: performance.now() - beganMs }
  parentPort?.postMessage(reply, [buffer])
})
parentPort?.postMessage('ready')
