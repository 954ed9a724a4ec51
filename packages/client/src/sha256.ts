import { createSHA256 } from 'hash-wasm'

// Browsers hash with a promise only, and a CID is read like any field. Started once, as the segment format's hashers are.
const hasher = await createSHA256()

/** SHA-256, without a promise, on any platform. */
export function sha256(bytes: Uint8Array): Uint8Array {
  return hasher.init().update(bytes).digest('binary')
}
