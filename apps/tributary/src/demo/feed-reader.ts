import type { Cast } from './cast.ts'

export interface FeedEntry {
  subject: string
  /** Only in hydrated pages. */
  view?: {
    kind: string
    actor: { did: string; handle?: string; displayName?: string }
    content: Record<string, unknown>
  }
}

/** The parameters of the viewer: two trusted things besides the follows, an evaluator and the ratings of the labeler. */
export function feedRequest({ viewer, eve }: Cast, limit: number): Record<string, unknown> {
  return {
    feedId: 'org.impact.feed.defs#impactFeed',
    params: {
      $type: 'org.impact.feed.defs#impactFeedParams',
      viewerDid: viewer.did,
      trustedEvaluators: [eve.did],
      organizationQuality: ['high-quality', 'standard'],
    },
    limit,
  }
}

/** Calls a feed method without a token. Throws with what the service said when it does not answer 200. */
export async function readFeedPage(
  feedUrl: string,
  method: 'getFeed' | 'getFeedSkeleton',
  request: Record<string, unknown>,
): Promise<{ feed: FeedEntry[]; cursor?: string }> {
  const response = await fetch(`${feedUrl}/xrpc/org.impact.feed.${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  })
  if (!response.ok) throw new Error(`the feed answered ${response.status} ${await response.text()}`)
  return (await response.json()) as { feed: FeedEntry[]; cursor?: string } // the service checks its answers by their lexicon
}

/** The whole feed, page by page. */
export async function readFeed(
  feedUrl: string,
  method: 'getFeed' | 'getFeedSkeleton',
  cast: Cast,
  pageSize: number,
): Promise<FeedEntry[]> {
  const entries: FeedEntry[] = []
  let cursor: string | undefined
  do {
    const request = { ...feedRequest(cast, pageSize), ...(cursor !== undefined && { cursor }) }
    const page = await readFeedPage(feedUrl, method, request)
    entries.push(...page.feed)
    cursor = page.cursor
  } while (cursor !== undefined)
  return entries
}
