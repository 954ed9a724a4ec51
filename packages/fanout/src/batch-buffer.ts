/**
 * Batches are built in buffers of these sizes, each again and again. A larger batch gets a buffer of its own. A read for
 * one reader is as a rule a little more than 64 KiB.
 */
const keptSizes = [16 * 1024, 64 * 1024, 72 * 1024, 256 * 1024]

/**
 * Where messages are joined to one buffer for one round of writes. A socket that could not hand all of it to the kernel
 * at once still needs it: then it is left to the socket, and the next round gets another one. The sizes are few and near
 * enough that what a socket keeps is not much larger than what it was sent.
 */
export class BatchBuffer {
  readonly #buffers = new Map<number, Buffer>()
  #lastSize = 0

  /** The messages as one run of bytes, good until the next call unless `leave` is called before. */
  join(frames: readonly Uint8Array[]): Uint8Array {
    const [first] = frames
    this.#lastSize = 0
    if (frames.length === 1 && first) return first
    let length = 0
    for (const frame of frames) length += frame.length
    const size = keptSizes.find((each) => length <= each)
    if (size === undefined) return Buffer.concat(frames, length)
    this.#lastSize = size
    const buffer = this.#buffers.get(size) ?? Buffer.allocUnsafeSlow(size)
    this.#buffers.set(size, buffer)
    let end = 0
    for (const frame of frames) {
      buffer.set(frame, end)
      end += frame.length
    }
    return buffer.subarray(0, end)
  }

  /** Somebody still reads what was joined last. */
  leave(): void {
    this.#buffers.delete(this.#lastSize)
  }
}
