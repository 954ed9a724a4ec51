/**
 * The framings of proposal 0015: one self-describing object a message, in JSON or CBOR. Consumers ask for them by
 * WebSocket subprotocol; without, they get the default framing of `frame.ts`.
 */
import { encode } from '@atcute/cbor'

/** Subprotocols that a `subscription` may offer. The first is what those get who ask for none. */
export const subprotocols = ['xrpc.v0.cbor', 'xrpc.v1.json', 'xrpc.v1.cbor'] as const

/** An error, the last message of a stream. `error` is a name such as `FutureCursor`. */
export function encodeErrorV1(error: string, message: string, framing: 'json' | 'cbor'): Uint8Array {
  const object = { $type: 'error', error, message }
  return framing === 'cbor' ? encode(object) : new TextEncoder().encode(JSON.stringify(object))
}
