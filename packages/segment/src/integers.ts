import { SegmentError, type SegmentProblem } from './errors.ts'

/**
 * Little-endian 64-bit fields as Numbers. Sequence numbers, offsets and microsecond times stay below 2^53
 * (microseconds until the year 2255); a larger value is refused, never rounded.
 */
export function readU64(view: DataView, offset: number, problem: SegmentProblem): number {
  const value = view.getUint32(offset, true) + view.getUint32(offset + 4, true) * 2 ** 32
  if (!Number.isSafeInteger(value)) throw new SegmentError(problem, `64-bit value at ${offset} is above 2^53`)
  return value
}

export function readI64(view: DataView, offset: number, problem: SegmentProblem): number {
  const value = view.getUint32(offset, true) + view.getInt32(offset + 4, true) * 2 ** 32
  if (!Number.isSafeInteger(value)) {
    throw new SegmentError(problem, `64-bit value at ${offset} is beyond 2^53`)
  }
  return value
}

/** Writes a safe integer, negative or not, as 64 bits two's complement. */
export function write64(view: DataView, offset: number, value: number): void {
  view.setUint32(offset, value, true)
  view.setInt32(offset + 4, Math.floor(value / 2 ** 32), true)
}

/** A view of exactly these bytes. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
