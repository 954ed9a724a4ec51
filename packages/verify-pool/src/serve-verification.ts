import { parentPort } from 'node:worker_threads'
import type { SigningKey } from '@tributary/repo-verify'
import { orDefect, type Verdict } from './verdict.ts'
import type { ToThread, VerifyReply, VerifyRequest, VerifyWork } from './verify-messages.ts'

/** Keys that are kept. When there are more, all are dropped: an event without its key comes back as `missing-key`. */
const keysMax = 200_000

/** Makes this thread one that verifies commits and syncs, batch by batch, for a `VerifyPool`. */
export function serveVerification<V extends { ok: true }>(work: VerifyWork<V>): void {
  const keys = new Map<number, SigningKey>()
  // What loading took is given back, where Node lets programs do so (`--expose-gc`).
  globalThis.gc?.({ type: 'major', flavor: 'last-resort' })
  parentPort?.on('message', (message: ToThread) => {
    if (message === 'end') return parentPort?.close()
    if ('policy' in message) return work.onPolicy?.(message.policy)
    const reply = verifyBatch(message, keys, work)
    parentPort?.postMessage(reply, [reply.buffer])
  })
  parentPort?.postMessage('ready')
}

function verifyBatch<V extends { ok: true }>(
  { buffer, ends, keys: numbers, newKeys, strict }: VerifyRequest,
  keys: Map<number, SigningKey>,
  work: VerifyWork<V>,
): VerifyReply<V> {
  const beganMs = performance.now()
  if (keys.size + newKeys.length > keysMax) keys.clear()
  for (const [number, key] of newKeys) keys.set(number, key)
  const bytes = Buffer.from(buffer)
  const verdictEnds: number[] = []
  const others = new Map<number, Verdict<V> | string>()
  let start = 0
  let room = ends.at(-1) ?? 0
  for (const [i, end] of ends.entries()) {
    const key = keys.get(numbers[i] ?? 0)
    const message = bytes.subarray(start, end)
    const verdict = orDefect(() => work.verify(message, key, strict[i] ?? true))
    const text = verdict.ok ? work.write(verdict, message) : undefined
    if (text !== undefined && room + text.length <= bytes.length) room += bytes.write(text, room, 'latin1')
    else others.set(i, text ?? verdict)
    verdictEnds.push(room)
    start = end
  }
  return { buffer, verdictEnds, others, tookMs: performance.now() - beganMs }
}
