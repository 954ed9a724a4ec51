/** What the services read out of a DID document, in its present form and in the old one that PLC test servers send. */
import { isHandle, type Did, type Handle } from '@tributary/protocol'
import { parseLegacyKey, parseMultikey, type SigningKey } from '@tributary/repo-verify'

export interface Identity {
  did: Did
  /** First handle that the document declares. Nobody has checked that the name points back. */
  handle: Handle | undefined
  /** Origin of the account's PDS. */
  pdsUrl: string | undefined
  /** Host of the PDS, lower case, with a port only where that is not the usual one. */
  pdsHost: string | undefined
  /** Key of the account's repository and service tokens, `#atproto`. */
  signingKey: SigningKey | undefined
  /** Key of a labeler, `#atproto_label`. */
  labelKey: SigningKey | undefined
  labelerUrl: string | undefined
  /** When reading it began, in milliseconds since 1970. */
  fetchedAt: number
}

/** Reads a DID document. Undefined when it is not one of this DID; parts that make no sense are left out. */
export function readDidDocument(document: unknown, did: Did, fetchedAt: number): Identity | undefined {
  if (!isObject(document) || document['id'] !== did) return undefined
  const pds = endpointOf(document, did, 'atproto_pds')
  return {
    did,
    handle: listOf(document['alsoKnownAs'])
      .map((alias) =>
        typeof alias === 'string' && alias.startsWith('at://') ? alias.slice(5).toLowerCase() : undefined,
      )
      .find((name) => isHandle(name)),
    pdsUrl: pds?.origin,
    pdsHost: pds?.host.toLowerCase(),
    signingKey: keyOf(document, did, 'atproto'),
    labelKey: keyOf(document, did, 'atproto_label'),
    labelerUrl: endpointOf(document, did, 'atproto_labeler')?.origin,
    fetchedAt,
  }
}

/** The longest host name with a port. What a document names is kept, so it must not be longer. */
const hostCharsMax = 259

function keyOf(document: Record<string, unknown>, did: Did, fragment: string): SigningKey | undefined {
  const method = entryOf(document['verificationMethod'], did, fragment)
  const text = method?.['publicKeyMultibase']
  if (typeof text !== 'string' || method?.['controller'] !== did) return undefined
  switch (method['type']) {
    case 'Multikey':
      return parseMultikey(text)
    case 'EcdsaSecp256k1VerificationKey2019':
      return parseLegacyKey('k256', text)
    case 'EcdsaSecp256r1VerificationKey2019':
      return parseLegacyKey('p256', text)
    default:
      return undefined
  }
}

function endpointOf(document: Record<string, unknown>, did: Did, fragment: string): URL | undefined {
  const endpoint = entryOf(document['service'], did, fragment)?.['serviceEndpoint']
  const url = typeof endpoint === 'string' && endpoint.length <= 2048 ? URL.parse(endpoint) : null
  // A name with a dot at its end is the same host, which must not pass for another one.
  if (url) url.hostname = url.hostname.replace(/\.+$/, '')
  return url && /^https?:$/.test(url.protocol) && url.host.length <= hostCharsMax ? url : undefined
}

/** The first entry of a list whose id is the fragment, alone or behind the DID. */
function entryOf(list: unknown, did: Did, fragment: string): Record<string, unknown> | undefined {
  return listOf(list)
    .filter(isObject)
    .find(({ id }) => id === `#${fragment}` || id === `${did}#${fragment}`)
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
