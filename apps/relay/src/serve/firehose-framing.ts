/** The framings of the firehose: that of the log, and those of proposal 0015. */
import { frameMessage } from '@tributary/fanout'
import { encodeErrorFrame, encodeErrorV1 } from '@tributary/protocol'
import { readMessage, reframe } from '@tributary/repo-verify'

const nsid = 'com.atproto.sync.subscribeRepos'

export const framingsV1 = ['json', 'cbor'] as const

export type FirehoseFraming = 'v0' | (typeof framingsV1)[number]

/** The framing of a connection, by the subprotocol that was agreed on. */
export function framingOf(protocol: string): FirehoseFraming {
  if (protocol === 'xrpc.v1.json') return 'json'
  return protocol === 'xrpc.v1.cbor' ? 'cbor' : 'v0'
}

/**
 * A WebSocket message of a message in the default framing.
 * @throws Error for a message that is none, which a log of an older version may hold.
 */
export function messageIn(framing: FirehoseFraming, bytes: Uint8Array): Buffer {
  if (framing === 'v0') return frameMessage('binary', bytes)
  const message = readMessage(bytes)
  if (!message.ok) throw new Error(`a message of the log cannot be read: ${message.detail}`)
  if (message.kind === 'error') throw new Error('the log holds an error message')
  return frameMessage(framing === 'json' ? 'text' : 'binary', reframe(message, nsid, framing))
}

/** A WebSocket message that tells of an error, the last one of a connection. */
export function errorIn(framing: FirehoseFraming, error: string, message: string): Buffer {
  if (framing === 'v0') return frameMessage('binary', encodeErrorFrame(error, message))
  return frameMessage(framing === 'json' ? 'text' : 'binary', encodeErrorV1(error, message, framing))
}
