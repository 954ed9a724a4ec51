/**
 * Signatures of service tokens. Unlike those of commits they may have a high S, so S is brought to its low form before
 * the shared check, which takes no other.
 */
import { verifySignature, type SigningKey } from '@tributary/repo-verify'
import type { ServiceToken } from './service-token.ts'

const algOf = { k256: 'ES256K', p256: 'ES256' } as const

/** Group orders: S and order - S are both right for one message. */
const orderOf = {
  k256: 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n,
  p256: 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
} as const

/** True when the token is signed with this key, by the algorithm of this kind of key. */
export function isSignedWith(key: SigningKey, token: ServiceToken): boolean {
  if (token.alg !== algOf[key.curve] || token.signature.length !== 64) return false
  return verifySignature(key, token.signedBytes, withLowS(token.signature, orderOf[key.curve]))
}

function withLowS(signature: Uint8Array, order: bigint): Uint8Array {
  const s = BigInt(`0x${Buffer.from(signature.subarray(32)).toString('hex')}`)
  if (s <= order / 2n || s >= order) return signature
  const low = (order - s).toString(16).padStart(64, '0')
  return Buffer.concat([signature.subarray(0, 32), Buffer.from(low, 'hex')])
}
