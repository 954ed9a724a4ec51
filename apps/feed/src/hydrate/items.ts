/**
 * A page of selected entries made ready to draw. Entries whose record must not be shown are left out, not replaced, and so
 * are entries over the limit: no page of fifty is larger than 512 kB.
 */
import type { IndexView, SelectedView } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { summarizeActor } from './actor.ts'

/** `content` of an endorsement, as the index prepared it. */
type Endorsement = Readonly<Record<string, unknown>> & { readonly subject: { readonly did: Did } }

/** Bytes of one entry as JSON. Records that pass their lexicon stay far below, unless their author aims at it. */
const itemBytesMax = 10_000

/**
 * Gives the entries as JSON, because views are JSON already. Reads the index at most once per page, for the accounts of the
 * entries that stay.
 */
export async function hydrate(
  selected: readonly SelectedView[],
  index: Pick<IndexView, 'actors'>,
): Promise<string[]> {
  const shown = selected.flatMap(({ uri, did, kind, view }) => {
    if (view === null) return []
    const endorsement = kind === 'endorsement.award' ? (JSON.parse(view) as Endorsement) : undefined // by the index
    return [{ uri, did, kind, view, endorsement }]
  })
  if (shown.length === 0) return []

  const accounts = new Set(shown.flatMap(({ did, endorsement }) => [did, endorsement?.subject.did ?? did]))
  const sources = await index.actors([...accounts])
  const summaries = new Map([...accounts].map((did) => [did, summarizeActor(did, sources.get(did) ?? {})]))
  const actors = new Map([...summaries].map(([did, summary]) => [did, JSON.stringify(summary)]))

  const items = shown.map(({ uri, did, kind, view, endorsement }) => {
    const content = endorsement
      ? JSON.stringify({ ...endorsement, subject: summaries.get(endorsement.subject.did) })
      : view
    const head = `"$type":"org.impact.feed.defs#impactFeedView","kind":"${kind}"`
    return `{"subject":${JSON.stringify(uri)},"view":{${head},"actor":${actors.get(did)},"content":${content}}}`
  })
  return items.filter((item) => Buffer.byteLength(item) <= itemBytesMax)
}
