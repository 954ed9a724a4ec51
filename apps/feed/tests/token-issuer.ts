/** Accounts that issue service tokens: real keys, real signatures. */
import { P256Keypair, Secp256k1Keypair } from '@atproto/crypto'
import type { Did } from '@tributary/protocol'
import type { DidHost } from './did-host.ts'
import { did } from './sample.ts'

type Keypair = P256Keypair | Secp256k1Keypair

export const serviceDid = 'did:web:feed.example'
export const getFeed = 'org.impact.feed.getFeed'
export const getFeedSkeleton = 'org.impact.feed.getFeedSkeleton'

const halfOrders = {
  ES256K: 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n,
  ES256: 0x7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a8n,
}

let count = 0

export class TokenIssuer {
  readonly did: Did
  #keypair: Keypair

  private constructor(account: Did, keypair: Keypair) {
    this.did = account
    this.#keypair = keypair
  }

  /** An account whose document, with its key, is on the host. */
  static async register(
    host: DidHost,
    name: string,
    {
      curve = 'k256',
      did: account = did(name),
      path = `/${account}`,
    }: { curve?: 'k256' | 'p256'; did?: Did; path?: string } = {},
  ): Promise<TokenIssuer> {
    const issuer = new TokenIssuer(account, await newKey(curve))
    host.documents.set(path, issuer.document())
    return issuer
  }

  /** The document with the present key, in the form that the network's directory gives. */
  document(): object {
    return {
      '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
      id: this.did,
      verificationMethod: [
        {
          id: `${this.did}#atproto`,
          type: 'Multikey',
          controller: this.did,
          publicKeyMultibase: this.#keypair.did().slice('did:key:'.length),
        },
      ],
    }
  }

  /** From now on tokens are signed with a new key. The document is the caller's to replace. */
  async changeKey(): Promise<void> {
    this.#keypair = await newKey('k256')
  }

  /** A good token for getFeedSkeleton, with other claims or header fields. An undefined one is left out. */
  token(claims: object = {}, header: object = {}): Promise<string> {
    return this.sign(this.claims(claims), { typ: 'JWT', alg: this.alg, ...header })
  }

  claims(claims: object = {}): object {
    const now = Math.floor(Date.now() / 1000)
    return {
      iss: this.did,
      aud: serviceDid,
      iat: now,
      exp: now + 60,
      lxm: getFeedSkeleton,
      jti: `nonce-${count++}`,
      ...claims,
    }
  }

  get alg(): 'ES256K' | 'ES256' {
    return this.#keypair.jwtAlg === 'ES256' ? 'ES256' : 'ES256K'
  }

  async sign(claims: unknown, header: unknown): Promise<string> {
    const signed = `${base64url(header)}.${base64url(claims)}`
    const signature = await this.#keypair.sign(Buffer.from(signed))
    return `${signed}.${Buffer.from(signature).toString('base64url')}`
  }

  /** The same token with the other of its two valid signatures, the one with a high S. */
  withHighS(token: string): string {
    const [header, payload, signature = ''] = token.split('.')
    const bytes = Buffer.from(signature, 'base64url')
    const order = halfOrders[this.alg] * 2n + 1n
    const s = (order - BigInt(`0x${bytes.subarray(32).toString('hex')}`)).toString(16).padStart(64, '0')
    const high = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s, 'hex')])
    return `${header}.${payload}.${high.toString('base64url')}`
  }
}

function newKey(curve: 'k256' | 'p256'): Promise<Keypair> {
  return curve === 'k256' ? Secp256k1Keypair.create() : P256Keypair.create()
}

function base64url(value: unknown): string {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
}
