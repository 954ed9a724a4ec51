import { callService, fieldsOf } from './call-service.ts'

/** A PDS as `com.atproto.sync.listHosts` of a relay tells it. */
export interface RelayHost {
  hostname: string
  seq?: number
  accountCount?: number
  status?: string
}

/** Every source of a relay, page by page. Throws when the relay does not answer as relays do. */
export async function listHosts(relayUrl: string, signal: AbortSignal): Promise<RelayHost[]> {
  const hosts: RelayHost[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    const method = `com.atproto.sync.listHosts?${query.toString()}`
    const answer = fieldsOf(relayUrl, await callService(relayUrl, method, { signal }), 'hosts')
    const page = answer as unknown as { hosts: RelayHost[]; cursor?: string } // the method's lexicon
    hosts.push(...page.hosts)
    cursor = page.cursor
  } while (cursor !== undefined)
  return hosts
}
