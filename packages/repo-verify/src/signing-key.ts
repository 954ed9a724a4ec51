/**
 * Public keys of accounts and their signatures: ECDSA over SHA-256, K-256 or P-256, 64 bytes, low S only.
 * A key is plain data, so it can be stored and sent to another thread as it is.
 */
import { createPublicKey, ECDH, hash, verify, type KeyObject } from 'node:crypto'
import { fromBase58Btc } from '@atcute/multibase'
// The native binding itself: without it the start fails, where the main module would fall back to code 30 times slower.
import secp256k1 from 'secp256k1/bindings.js'

export interface SigningKey {
  readonly curve: 'k256' | 'p256'
  /** The point, uncompressed: 65 bytes. */
  readonly point: Uint8Array
}

const base58CharsMax = 128
const multicodecBytes = { k256: [0xe7, 0x01], p256: [0x80, 0x24] } as const

/** Reads `did:key:z…`. Undefined if it is not a K-256 or P-256 key. */
export function parseDidKey(text: string): SigningKey | undefined {
  return text.startsWith('did:key:') ? parseMultikey(text.slice('did:key:'.length)) : undefined
}

/** Reads a Multikey, `z…` with the curve in front of the point. Undefined if it is not a K-256 or P-256 key. */
export function parseMultikey(text: string): SigningKey | undefined {
  const bytes = decodeMultibase(text)
  if (!bytes) return undefined
  for (const curve of ['k256', 'p256'] as const) {
    const [first, second] = multicodecBytes[curve]
    if (bytes[0] === first && bytes[1] === second) return toKey(curve, bytes.subarray(2))
  }
  return undefined
}

/** Reads the bare point that DID documents of the old form carry, whose type names the curve. */
export function parseLegacyKey(curve: SigningKey['curve'], text: string): SigningKey | undefined {
  const bytes = decodeMultibase(text)
  return bytes && toKey(curve, bytes)
}

/** Whether `signature` is a valid one of `message`, which is hashed here. Anything malformed is not valid. */
export function verifySignature(key: SigningKey, message: Uint8Array, signature: Uint8Array): boolean {
  if (signature.length !== 64) return false
  return key.curve === 'k256'
    ? verifyK256(key.point, message, signature)
    : verifyP256(key, message, signature)
}

const digestScratch = Buffer.alloc(32)

/** libsecp256k1 refuses a high S by itself, and throws for numbers that are not of the curve. */
function verifyK256(point: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  // As text, and not as a Buffer of its own each time: half the cost.
  digestScratch.write(hash('sha256', message, 'binary'), 'latin1')
  try {
    return secp256k1.ecdsaVerify(signature, digestScratch, point)
  } catch {
    return false
  }
}

/** Half of the order of P-256, rounded down. A larger S is the other form of a valid signature and must be refused. */
const p256HalfOrder = Buffer.from('7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a8', 'hex')
const p256SpkiPrefix = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')
/**
 * Keys that are ready to verify with, newest and before: each takes 4 kB that no garbage collector counts, and whoever has
 * accounts chooses their curve. To make one ready takes half as long as a verification.
 */
const readyMax = 256
let readyKeys = new Map<SigningKey, KeyObject>()
let readyBefore = readyKeys

function verifyP256(key: SigningKey, message: Uint8Array, signature: Uint8Array): boolean {
  if (Buffer.compare(signature.subarray(32), p256HalfOrder) > 0) return false
  return verify('sha256', message, { key: p256KeyObject(key), dsaEncoding: 'ieee-p1363' }, signature)
}

function p256KeyObject(key: SigningKey): KeyObject {
  const known = readyKeys.get(key)
  if (known) return known
  const ready = readyBefore.get(key) ?? readP256(key.point)
  if (readyKeys.size === readyMax) {
    readyBefore = readyKeys
    readyKeys = new Map()
  }
  readyKeys.set(key, ready)
  return ready
}

/** @throws if it is not a point of the curve. */
function readP256(point: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([p256SpkiPrefix, point]), format: 'der', type: 'spki' })
}

function decodeMultibase(text: string): Uint8Array | undefined {
  if (!text.startsWith('z') || text.length > base58CharsMax) return undefined
  try {
    return fromBase58Btc(text.slice(1))
  } catch {
    return undefined // not base58
  }
}

function toKey(curve: SigningKey['curve'], encoded: Uint8Array): SigningKey | undefined {
  if (encoded.length !== 33 && encoded.length !== 65) return undefined
  try {
    return {
      curve,
      point: curve === 'k256' ? secp256k1.publicKeyConvert(encoded, false) : uncompressP256(encoded),
    }
  } catch {
    return undefined // not a point of the curve
  }
}

function uncompressP256(encoded: Uint8Array): Uint8Array {
  const point = ECDH.convertKey(encoded, 'prime256v1', undefined, undefined, 'uncompressed') as Buffer // no output encoding: bytes
  readP256(point)
  return point
}
