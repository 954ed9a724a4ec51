import { createXXHash128, createXXHash3, createXXHash64 } from 'hash-wasm'

// The WebAssembly hashers start once, here, so that everything above can hash synchronously. They hold no secrets and
// touch nothing outside this module; a top-level await is the smallest way to say so.
const [xxh3, xxh128, xxh64] = await Promise.all([createXXHash3(), createXXHash128(), createXXHash64()])

/** XXH3, 64 bits, seed 0, over the parts in order, as 16 lower-case hex digits. */
export function xxh3Hex(...parts: Uint8Array[]): string {
  xxh3.init()
  for (const part of parts) xxh3.update(part)
  return xxh3.digest()
}

/** XXH3, 128 bits, seed 0: 16 bytes, most significant first. A string is hashed as UTF-8. */
export function xxh128Bytes(input: Uint8Array | string): Uint8Array {
  return xxh128.init().update(input).digest('binary')
}

/** The low 32 bits of XXH64, seed 0: the content checksum of a zstd frame. */
export function xxh64Low32(input: Uint8Array): number {
  const digest = xxh64.init().update(input).digest('binary')
  return new DataView(digest.buffer, digest.byteOffset).getUint32(4)
}
