/** The part of `hash-wasm` for CRC-32. Its main module holds the code of all hash functions: a megabyte of memory. */
declare module 'hash-wasm/dist/crc32.umd.min.js' {
  import type { createCRC32 } from 'hash-wasm'
  const parts: { createCRC32: typeof createCRC32 }
  export default parts
}
