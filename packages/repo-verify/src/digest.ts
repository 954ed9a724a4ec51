/**
 * Everything in a repository is addressed by CIDv1, DAG-CBOR, SHA-256, so inside this package and towards its callers
 * a CID is its digest alone: a string of 32 characters, one per byte, which compares, hashes and stores cheaply.
 */
import * as crypto from 'node:crypto'
import type { CidString } from '@tributary/protocol'

declare const brand: unique symbol
/** The SHA-256 of a DAG-CBOR block: 32 characters with codes 0 to 255, one per byte. */
export type Digest = string & { readonly [brand]: 'Digest' }

/** The four bytes before the digest in a CIDv1 of DAG-CBOR and SHA-256, read as a number. */
export const cidPrefix = 0x01711220

/** SHA-256 of bytes, or of the UTF-8 of a text. */
export function sha256(data: Uint8Array | string): Digest {
  return crypto.hash('sha256', data, 'binary') as Digest // 'binary' gives one character per byte
}

/** Reads a digest out of the bytes of a CID, 4 bytes after its start. */
export function digestAt(bytes: Buffer, at: number): Digest {
  return bytes.toString('latin1', at, at + 32) as Digest // 32 bytes, one character each
}

/** Whether a digest stands at a position of bytes. Takes less than reading it. */
export function isDigestAt(bytes: Buffer, at: number, digest: Digest): boolean {
  for (let i = 0; i < 32; i++) if (bytes[at + i] !== digest.charCodeAt(i)) return false
  return true
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

/** The usual text of the CID, `bafyrei…`. */
export function digestToCid(digest: Digest): CidString {
  const bytes = Buffer.alloc(36)
  bytes.writeUInt32BE(cidPrefix)
  bytes.write(digest, 4, 'latin1')
  let text = 'b'
  let pending = 0
  let bits = 0
  for (const byte of bytes) {
    pending = (pending << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += alphabet.charAt((pending >> bits) & 31)
    }
    pending &= 31
  }
  return (bits > 0 ? text + alphabet.charAt((pending << (5 - bits)) & 31) : text) as CidString // base32 of a CID
}

/** The digest of a CID text. Undefined for anything but a CIDv1 in base32 of DAG-CBOR and SHA-256. */
export function cidToDigest(cid: string): Digest | undefined {
  if (cid.length !== 59 || !cid.startsWith('b')) return undefined
  const bytes = Buffer.alloc(36)
  let pending = 0
  let bits = 0
  let at = 0
  for (let i = 1; i < cid.length; i++) {
    const value = alphabet.indexOf(cid.charAt(i))
    if (value === -1) return undefined
    pending = ((pending << 5) | value) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[at++] = pending >> bits
    }
  }
  const isWhole = (pending & ((1 << bits) - 1)) === 0
  return isWhole && bytes.readUInt32BE(0) === cidPrefix ? digestAt(bytes, 4) : undefined
}
