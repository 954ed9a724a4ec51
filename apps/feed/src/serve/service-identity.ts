import type { Did } from '@tributary/protocol'

/** The identity document of this service, and the host name on which it is served. */
export interface ServiceIdentity {
  readonly host: string
  readonly document: object
}

/**
 * The document of a `did:web` that is a host name alone (feed.md 3.5). Undefined for every other DID, whose
 * document is served elsewhere. It holds no key, because this service signs nothing.
 */
export function serviceIdentity(serviceDid: Did): ServiceIdentity | undefined {
  const host = /^did:web:([a-zA-Z0-9.-]+)$/.exec(serviceDid)?.[1]
  if (host === undefined) return undefined
  const endpoint = `https://${host}`
  return {
    host: host.toLowerCase(),
    document: {
      '@context': ['https://www.w3.org/ns/did/v1'],
      id: serviceDid,
      service: [{ id: '#impact_feed', type: 'ImpactFeedService', serviceEndpoint: endpoint }],
    },
  }
}
