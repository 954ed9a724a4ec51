/**
 * The fold's rules once more, in the plainest form: a map of records, and everything a feed reads worked out from all of
 * it at the end. Tests compare the index with it.
 */
import { parseDatetime } from '@tributary/index-store'
import { type Did, type EntryKind, isDid, type StreamEvent } from '@tributary/protocol'

interface Item {
  uri: string
  did: Did
  collection: string
  rkey: string
  cid: string
  value: unknown
  indexedAt: bigint
  createdAt: bigint | null
}

export interface Shown {
  records: [uri: string, cid: string, indexedAt: bigint, createdAt: bigint | null][]
  entries: [uri: string, kind: EntryKind, feedTime: bigint][]
  endorsements: [issuer: Did, subject: Did][]
  follows: string[][]
  organizations: Did[]
}

/**
 * The rows that the index must hold after these events.
 * @param words what the hosts of accounts said of them since the stream spoke of them last
 */
export function reference(
  events: readonly StreamEvent[],
  words: ReadonlyMap<string, string> = new Map(),
): Shown {
  const records = new Map<string, Item>()
  const superseded = new Map<string, Item>()
  const status = new Map<Did, string>()

  for (const event of events) {
    const { did } = event
    const receivedAt = parseDatetime(event.time) ?? 0n
    const own = (): Item[] => [...records.values()].filter((item) => item.did === did)
    if (event.kind === 'commit') {
      const uri = `at://${did}/${event.collection}/${event.rkey}`
      if (event.operation === 'delete') {
        records.delete(uri)
        superseded.delete(uri)
        continue
      }
      const { cid = '', record: value = {}, collection, rkey } = event
      if (!status.has(did)) status.set(did, 'active')
      const before = records.get(uri) ?? superseded.get(uri)
      if (!(records.get(uri)?.cid === cid)) {
        const createdAt = before?.createdAt ?? parseDatetime(value['createdAt']) ?? null
        const indexedAt = before?.cid === cid ? before.indexedAt : receivedAt
        records.set(uri, { uri, did, collection, rkey, cid, value, indexedAt, createdAt })
        superseded.delete(uri)
      }
    } else if (event.kind === 'account') {
      const said = event.account.status ?? 'inactive'
      status.set(did, event.account.active ? 'active' : said === 'active' ? 'inactive' : said)
      if (status.get(did) !== 'deleted') continue
      for (const { uri } of own()) records.delete(uri)
      for (const { uri } of [...superseded.values()].filter((item) => item.did === did))
        superseded.delete(uri)
    } else if (event.kind === 'sync' && event.sync.seq === 0) {
      if (status.has(did) && !isShown(status.get(did))) status.set(did, 'active')
      for (const item of own()) {
        superseded.set(item.uri, item)
        records.delete(item.uri)
      }
    }
  }
  const visible = [...records.values()].filter(({ did }) => isVisible(status.get(did), words.get(did)))
  return {
    records: [...records.values()].map((r) => [r.uri, r.cid, r.indexedAt, r.createdAt]),
    ...classify(visible),
  }
}

/** A host hides what it says is gone, and shows again what the stream calls deactivated or deleted only. */
function isVisible(status: string | undefined, word: string | undefined): boolean {
  if (word !== undefined && !isShown(word)) return false
  return isShown(status) || ((status === 'deactivated' || status === 'deleted') && word === 'active')
}

/** Without a slot at its relay, or with commits missed: that says nothing about the records. */
function isShown(status: string | undefined): boolean {
  return status === 'active' || status === 'throttled' || status === 'desynchronized'
}

function classify(visible: Item[]): Omit<Shown, 'records'> {
  const byUri = new Map(visible.map((item) => [item.uri, item]))
  const of = (collection: string) => visible.filter((item) => item.collection === collection)
  const feedTime = (item: Item) => item.createdAt ?? item.indexedAt
  const matches = (ref: unknown, item: Item) => at(ref, 'uri') === item.uri && at(ref, 'cid') === item.cid
  const distance = (a: Item, b: Item) =>
    feedTime(a) > feedTime(b) ? feedTime(a) - feedTime(b) : feedTime(b) - feedTime(a)
  const isPair = (collection: Item, activity: Item) =>
    collection.did === activity.did &&
    listOf(at(collection.value, 'items')).some((item) => matches(at(item, 'itemIdentifier'), activity)) &&
    distance(collection, activity) < 60_000_000n

  const activities = of('org.impact.claim.activity')
  const lists = of('org.impact.collection')
  const entries: Shown['entries'] = []
  const enter = (item: Item, kind: EntryKind) => entries.push([item.uri, kind, feedTime(item)])
  for (const item of activities) if (!lists.some((list) => isPair(list, item))) enter(item, 'cert.create')
  for (const list of lists) {
    enter(
      list,
      activities.some((item) => isPair(list, item)) ? 'project.created_with_cert' : 'collection.create',
    )
  }
  for (const item of of('org.impact.context.evaluation')) enter(item, 'evaluation.create')
  for (const item of of('org.impact.context.attachment')) enter(item, 'update.create')

  const endorsements: Shown['endorsements'] = []
  for (const award of of('app.attested.badge.award')) {
    const subject = at(award.value, 'subject', 'did')
    const badge = byUri.get(String(at(award.value, 'badge', 'uri')))
    if (!isDid(subject) || subject === award.did || badge?.cid !== at(award.value, 'badge', 'cid')) continue
    const allowed = at(badge?.value, 'allowedIssuers')
    if (at(badge?.value, 'badgeType') !== 'endorsement') continue
    if (allowed !== undefined && !listOf(allowed).includes(award.did)) continue
    const answers = of('app.attested.badge.response')
      .filter((answer) => answer.did === subject && matches(at(answer.value, 'badgeAward'), award))
      .toSorted(
        (a, b) =>
          compare(feedTime(b), feedTime(a)) || compare(b.indexedAt, a.indexedAt) || compare(b.uri, a.uri),
      )
    if (at(answers[0]?.value, 'response') === 'rejected') continue
    endorsements.push([award.did, subject])
    enter(award, 'endorsement.award')
  }
  const follows = of('app.attested.graph.follow').map(({ did, value }) => [did, String(at(value, 'subject'))])
  const organizations = of('app.attested.actor.organization').filter(({ rkey }) => rkey === 'self')
  return { entries, endorsements, follows, organizations: organizations.map(({ did }) => did) }
}

function compare<T extends string | bigint>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** What stands in a value under these names, one inside the other. */
function at(value: unknown, ...names: string[]): unknown {
  return names.reduce<unknown>(
    (inner, name) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, name) : undefined),
    value,
  )
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}
