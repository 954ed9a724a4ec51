/**
 * Gives the memory of large bytes back at once. Nobody may use them any more, nor other views of the same memory.
 * Garbage collection looks through the whole heap each time that some 64 MB of such bytes were made. A compaction makes
 * gigabytes of them.
 */
export function freeBytes({ buffer }: Uint8Array): void {
  // Smaller ones may share their memory with other buffers of Node.
  if (buffer instanceof ArrayBuffer && buffer.byteLength > Buffer.poolSize) buffer.transfer(0)
}
