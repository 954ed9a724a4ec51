/** A glance at a frame, to route it to where it will be verified. */
import type { CborReader } from './cbor-reader.ts'
import { frameReader } from './frame.ts'
import { RefusedError } from './refusal.ts'

export interface PeekedFrame {
  /** 1 for a message, -1 for an error. */
  op: number
  t: string | undefined
  /** The account as written, unchecked. Undefined for kinds of message that have none. */
  did: string | undefined
  upstreamSeq: number | undefined
}

/**
 * Reads what routing needs and nothing else. Undefined if that cannot be read; `verifyEvent` then says what is wrong.
 * The account is the first `repo` or `did` of the body.
 */
export function peekFrame(frame: Uint8Array): PeekedFrame | undefined {
  try {
    return peek(frameReader(frame))
  } catch (error) {
    if (error instanceof RefusedError) return undefined
    throw error
  }
}

function peek(reader: CborReader): PeekedFrame {
  const frame: PeekedFrame = { op: 0, t: undefined, did: undefined, upstreamSeq: undefined }
  for (let left = reader.map(); left > 0; left--) {
    const key = reader.name()
    if (key === 'op') frame.op = reader.integer()
    else if (key === 't') frame.t = reader.text()
    else reader.skip(false)
  }
  for (let left = reader.map(); left > 0; left--) {
    const key = reader.name()
    if (key === 'seq') frame.upstreamSeq = reader.unsigned()
    else if (key === 'repo' || key === 'did') frame.did = reader.text()
    else reader.skip(false)
    if (frame.did !== undefined && frame.upstreamSeq !== undefined) break
  }
  return frame
}
