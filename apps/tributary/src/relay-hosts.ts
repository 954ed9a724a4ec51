import { pagesOf } from './answer-lists.ts'
import { callService } from './call-service.ts'

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
  let hosts: RelayHost[] = []
  const ask = async (cursor: string | undefined): Promise<unknown> => {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    return await callService(relayUrl, `com.atproto.sync.listHosts?${query.toString()}`, { signal })
  }
  for await (const page of pagesOf(relayUrl, 'hosts', ask, { kinds: { hostname: 'string' } })) {
    hosts = hosts.concat(page as RelayHost[]) // by its lexicon; numbers are shown or compared only
    if (hosts.length >= limit) break
  }
  return hosts.slice(0, limit)
}
