/**
 * The framings of proposal 0015: one self-describing object a message, in JSON or CBOR. Consumers ask for them by
 * WebSocket subprotocol; without, they get the default framing of `frame.ts`.
 */
import { encode } from '@atcute/cbor'
import { decodeFrame } from './frame.ts'

/** Subprotocols that a `subscription` may offer. The first is what those get who ask for none. */
export const subprotocols = ['xrpc.v0.cbor', 'xrpc.v1.json', 'xrpc.v1.cbor'] as const

export type FramingV1 = 'json' | 'cbor'

/**
 * The message of a frame in the default framing, in another one.
 * @param nsid of the subscription, for the full name of the message's type.
 * @throws FrameError
 */
export function reframe(frame: Uint8Array, nsid: string, framing: FramingV1): Uint8Array {
  const { t, body } = decodeFrame(frame)
  return encodeV1({ $type: 'message', payload: { $type: `${nsid}${t ?? ''}`, ...body } }, framing)
}

/** An error, the last message of a stream. `error` is a name such as `FutureCursor`. */
export function encodeErrorV1(error: string, message: string, framing: FramingV1): Uint8Array {
  return encodeV1({ $type: 'error', error, message }, framing)
}

function encodeV1(object: Record<string, unknown>, framing: FramingV1): Uint8Array {
  return framing === 'cbor' ? encode(object) : new TextEncoder().encode(JSON.stringify(object))
}
