import { callService, fieldsOf } from './call-service.ts'

/** A PDS as `com.atproto.sync.listHosts` of a relay tells it. */
export interface RelayHost extends Record<string, unknown> {
  hostname: string
  seq?: number
  accountCount?: number
  status?: string
}

/** The sources of a relay, page by page. Throws when the relay does not answer as relays do. */
export async function listHosts(
  relayUrl: string,
  signal: AbortSignal,
  limit = Infinity,
): Promise<RelayHost[]> {
  const hosts: RelayHost[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    const method = `com.atproto.sync.listHosts?${query.toString()}`
    const answer = fieldsOf(relayUrl, await callService(relayUrl, method, { signal }), 'hosts')
    const page = answer as unknown as { hosts: RelayHost[]; cursor?: string } // the method's lexicon
    hosts.push(...page.hosts)
    cursor = page.cursor
  } while (cursor !== undefined && hosts.length < limit)
  return hosts.slice(0, limit)
}
