/** Batches up to this size are built in the same place again and again. */
const keptBytes = 256 * 1024

/**
 * Where messages are joined to one buffer for one round of writes. A socket that could not hand all of it to the kernel
 * at once still needs it: then it is left to the socket, and the next round gets another one.
 */
export class BatchBuffer {
  #buffer: Buffer | undefined

  /** The messages as one run of bytes, good until the next call unless `leave` is called before. */
  join(frames: readonly Uint8Array[]): Uint8Array {
    const [first] = frames
    if (frames.length === 1 && first) return first
    let length = 0
    for (const frame of frames) length += frame.length
    if (length > keptBytes) return Buffer.concat(frames, length)
    this.#buffer ??= Buffer.allocUnsafeSlow(keptBytes)
    let end = 0
    for (const frame of frames) {
      this.#buffer.set(frame, end)
      end += frame.length
    }
    return this.#buffer.subarray(0, end)
  }

  /** Somebody still reads what was joined last. */
  leave(): void {
    this.#buffer = undefined
  }
}
