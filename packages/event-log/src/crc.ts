import parts from 'hash-wasm/dist/crc32.umd.min.js'
import type { Crc } from './block.ts'

let shared: Promise<Crc> | undefined

/** CRC-32C (Castagnoli), compiled once per thread. */
export function createCrc(): Promise<Crc> {
  shared ??= compileCrc()
  return shared
}

async function compileCrc(): Promise<Crc> {
  const hasher = await parts.createCRC32(0x82f63b78)
  return (bytes) => {
    const digest = hasher.init().update(bytes).digest('binary')
    return (
      ((digest[0] ?? 0) * 0x1000000 +
        ((digest[1] ?? 0) << 16) +
        ((digest[2] ?? 0) << 8) +
        (digest[3] ?? 0)) >>>
      0
    )
  }
}
