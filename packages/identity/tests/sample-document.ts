import type { Did } from '@tributary/protocol'

/** A DID of the PLC directory that no other number gives. */
export function sampleDid(n: number): Did {
  const digits = Array.from(
    n.toString(32),
    (digit) => 'abcdefghijklmnopqrstuvwxyz234567'[Number.parseInt(digit, 32)],
  )
  return `did:plc:${digits.join('').padStart(24, 'a')}` as Did // 24 characters of the alphabet
}

export const sampleMultikey = 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme'

/** A document as the public PLC directory writes it. */
export function sampleDocument(did: string, changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
    id: did,
    alsoKnownAs: ['at://alice.example.com'],
    verificationMethod: [
      { id: `${did}#atproto`, type: 'Multikey', controller: did, publicKeyMultibase: sampleMultikey },
    ],
    service: [
      { id: '#atproto_pds', type: 'AtprotoPersonalDataServer', serviceEndpoint: 'https://pds.example.com' },
    ],
    ...changes,
  }
}
