import { encodeFrame } from '@tributary/protocol'
import { readMessage, type AccountBound } from '@tributary/repo-verify'

/** An `#identity`, for tests that look at its place in the order. @param length what its bytes are taken to be. */
export function sampleMessage(upstreamSeq: number, length = 10): AccountBound {
  const message = readMessage(
    encodeFrame('#identity', { seq: upstreamSeq, did: 'did:plc:a', time: '2026-01-01T00:00:00Z' }),
  )
  if (!message.ok || message.kind !== 'identity') throw new Error('the sample cannot be read')
  return { ...message, bytes: Buffer.alloc(length) }
}
