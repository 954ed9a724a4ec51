/**
 * Frames of `com.atproto.sync.subscribeRepos` in the default framing: a header map and a payload map, both DAG-CBOR.
 * This is the plain road for consumers and tests; the relay's verification reads frames with a faster reader of its own.
 */
import { decodeFirst, encode, toBytes } from '@atcute/cbor'

/** The bytes of a WebSocket message are not two CBOR maps of the protocol. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

export interface Frame {
  /** 1: a message, -1: an error that ends the stream. */
  op: number
  /** Type of a message, such as `#commit`. */
  t?: string
  body: Record<string, unknown>
}

/**
 * Decodes one frame. Links come as `CidLink`, byte strings as `Bytes` of `@atcute/cbor`.
 * @throws FrameError for anything but exactly two maps with an integer `op`, and a string `t` when `op` is 1.
 */
export function decodeFrame(bytes: Uint8Array): Frame {
  let header: unknown
  let body: unknown
  let rest: Uint8Array
  try {
    ;[header, rest] = decodeFirst(bytes)
    ;[body, rest] = decodeFirst(rest)
  } catch (cause) {
    throw new FrameError('the message is not valid DAG-CBOR', { cause })
  }
  if (rest.length > 0 || !isMap(header) || !isMap(body)) throw new FrameError('the message is not two maps')
  const { op, t } = header
  if (typeof op !== 'number' || (op === 1 && typeof t !== 'string'))
    throw new FrameError('the header is not of the protocol')
  return { op, body, ...(typeof t === 'string' ? { t } : {}) }
}

/** Encodes a message frame. Undefined fields of the body are left out, a `Uint8Array` becomes a byte string. */
export function encodeFrame(t: string, body: Record<string, unknown>): Uint8Array {
  return concat(encode({ t, op: 1 }), encode(encodable(body)))
}

/** Encodes an error frame, the last one of a stream. `error` is a name such as `FutureCursor`. */
export function encodeErrorFrame(error: string, message: string): Uint8Array {
  return concat(encode({ op: -1 }), encode({ error, message }))
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

function encodable(body: Record<string, unknown>): Record<string, unknown> {
  const fields = Object.entries(body).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    fields.map(([key, value]) => [key, value instanceof Uint8Array ? toBytes(value) : value]),
  )
}

function concat(head: Uint8Array, tail: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(head.length + tail.length)
  bytes.set(head)
  bytes.set(tail, head.length)
  return bytes
}
