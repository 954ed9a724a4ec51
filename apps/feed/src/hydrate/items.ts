/**
 * A page of selected entries made ready to draw. Entries whose record must not be shown are left out, not replaced, and so
 * are entries over the limit: no page of fifty is larger than 512 kB.
 */
import { jsonStringToLex } from '@atproto/lexicon'
import { RecentMap } from '@tributary/identity'
import type { IndexView, SelectedView } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { summarizeActor, type ActorSummary } from './actor.ts'

/** `content` of a view, as the index prepared it: of an endorsed account it has the DID alone. */
type Content = Readonly<Record<string, unknown>> & { readonly subject?: { readonly did: Did } }

/** Views that are kept as objects: new entries are on the pages of many viewers. Long ones are few, and are not kept. */
const kept = { views: 2000, charsMax: 1000 }
const contents = new RecentMap<string, Content>(kept.views)

/** Bytes of one entry as JSON. Records that pass their lexicon stay far below, unless their author aims at it. */
const itemBytesMax = 10_000

export interface FeedItem {
  readonly subject: string
  readonly view: {
    readonly $type: 'org.impact.feed.defs#impactFeedView'
    readonly kind: string
    readonly actor: ActorSummary
    readonly content: Content
  }
}

/** Reads the index at most once per page, for the accounts of the entries that stay. */
export async function hydrate(
  selected: readonly SelectedView[],
  index: Pick<IndexView, 'actors'>,
): Promise<FeedItem[]> {
  const shown = selected.flatMap(({ view, ...entry }) =>
    view === null ? [] : [{ ...entry, content: contentOf(view) }],
  )
  if (shown.length === 0) return []

  const accounts = new Set(shown.flatMap(({ did, content }) => [did, content.subject?.did ?? did]))
  const sources = await index.actors([...accounts])
  const summarize = (did: Did): ActorSummary => summarizeActor(did, sources.get(did) ?? {})

  const items = shown.map(({ uri, did, kind, content }): FeedItem => ({
    subject: uri,
    view: {
      $type: 'org.impact.feed.defs#impactFeedView',
      kind,
      actor: summarize(did),
      content: content.subject ? { ...content, subject: summarize(content.subject.did) } : content,
    },
  }))
  return items.filter((item) => Buffer.byteLength(JSON.stringify(item)) <= itemBytesMax)
}

/** Gives a view as an object, which callers do not change. */
function contentOf(view: string): Content {
  const known = contents.get(view)
  if (known) return known
  const content = jsonStringToLex(view) as Content // the index prepared it
  if (view.length <= kept.charsMax) contents.set(view, content)
  return content
}
