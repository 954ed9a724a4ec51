import type { LogSlice } from '@tributary/event-log'
import { messageIn, type FirehoseFraming } from './firehose-framing.ts'

/** What an entry costs beside its bytes, about. */
const entryBytes = 200

/** Told of an event that cannot be encoded. Readers of that framing pass over it. */
export type OnNotEncoded = (seq: number, framing: FirehoseFraming, error: unknown) => void

/**
 * The events of the log in one of the framings that the log does not hold, encoded once for all readers that come by
 * while they are kept: the newest encoded ones, within a bound of bytes.
 */
export class EncodedEvents {
  readonly #framing: FirehoseFraming
  readonly #bytesMax: number
  readonly #onNotEncoded: OnNotEncoded
  /** By seq, the oldest entry first. Undefined: it cannot be encoded. */
  readonly #frames = new Map<number, Buffer | undefined>()
  #bytes = 0

  constructor(framing: FirehoseFraming, bytesMax: number, onNotEncoded: OnNotEncoded) {
    this.#framing = framing
    this.#bytesMax = bytesMax
    this.#onNotEncoded = onNotEncoded
  }

  /** Bytes that are kept. */
  get bytes(): number {
    return this.#bytes
  }

  /** The WebSocket message of an event. Undefined when it cannot be encoded, which costs this event alone. */
  frameOf(slice: LogSlice, row: number): Buffer | undefined {
    const seq = slice.seqAt(row)
    const known = this.#frames.get(seq)
    if (known !== undefined || this.#frames.has(seq)) return known
    const frame = this.#encode(slice, row, seq)
    this.#frames.set(seq, frame)
    this.#bytes += costOf(frame)
    for (const [oldest, old] of this.#frames) {
      if (this.#bytes <= this.#bytesMax) break
      this.#frames.delete(oldest)
      this.#bytes -= costOf(old)
    }
    return frame
  }

  #encode(slice: LogSlice, row: number, seq: number): Buffer | undefined {
    try {
      return messageIn(this.#framing, messageOf(slice.payloadAt(row)))
    } catch (error) {
      this.#onNotEncoded(seq, this.#framing, error)
      return undefined
    }
  }
}

function costOf(frame: Buffer | undefined): number {
  return entryBytes + (frame?.length ?? 0)
}

/** The message within a stored WebSocket frame. */
function messageOf(frame: Buffer): Buffer {
  const short = frame.readUInt8(1)
  return frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10)
}
