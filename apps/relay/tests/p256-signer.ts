import { createECDH, createPrivateKey, randomBytes, sign, type KeyObject } from 'node:crypto'
import { Signer } from '@tributary/testkit'
import { base58 } from './base58.ts'

const curveOrder = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
/** The multicodec of a compressed P-256 key. */
const p256Code = [0x80, 0x24]

/** Signs as accounts do whose key is on the other of the two curves that there are. */
export class P256Signer extends Signer {
  readonly #key: KeyObject
  /** 65 bytes. */
  readonly publicKey: Buffer
  readonly multikey: string

  constructor() {
    super(randomBytes(32))
    const pair = createECDH('prime256v1')
    this.publicKey = pair.generateKeys()
    this.multikey = `z${base58(Buffer.from([...p256Code, ...pair.getPublicKey(null, 'compressed')]))}`
    const x = toText(this.publicKey.subarray(1, 33))
    const y = toText(this.publicKey.subarray(33))
    const jwk = { kty: 'EC', crv: 'P-256', d: toText(padded(pair.getPrivateKey())), x, y }
    this.#key = createPrivateKey({ key: jwk, format: 'jwk' })
  }

  override did(): string {
    return `did:key:${this.multikey}`
  }

  override signNow(message: Uint8Array): Uint8Array {
    const signature = sign('sha256', message, { key: this.#key, dsaEncoding: 'ieee-p1363' })
    const s = BigInt(`0x${signature.toString('hex', 32)}`)
    const low = s > curveOrder / 2n ? curveOrder - s : s
    return Buffer.concat([signature.subarray(0, 32), Buffer.from(low.toString(16).padStart(64, '0'), 'hex')])
  }
}

const toText = (bytes: Buffer): string => bytes.toString('base64url')
const padded = (bytes: Buffer): Buffer => Buffer.concat([Buffer.alloc(32 - bytes.length), bytes])
