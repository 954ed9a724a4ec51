/** An index database in which some accounts have very many records each, and a viewer follows others who have few. */
import { openIndexWriter, type RowOf } from '@tributary/index-store'
import { type Did, type EntryKind, recordUri } from '@tributary/protocol'
import { createRecordViews } from '@tributary/record-view'
import { loadLexicons } from '@tributary/xrpc'

export interface CrowdedIndex {
  /** Those with many records. */
  accounts: readonly Did[]
  viewer: Did
  /** Owns the badge that all awards name. */
  badgeOwner: Did
  /** How the badge is defined. */
  definition: object
  definitionCid: string
}

const followed = 50
const entriesOfFollowed = 20
const startMicros = Date.UTC(2025, 0, 1) * 1000
const stepMicros = 1_000_000
const cid = 'bafyreieos3lwft276jbcwfcuwgdftxpsexbxydiebo2jpfsleivbrs7nli'
const activity = 'org.impact.claim.activity'
const award = 'app.attested.badge.award'
export const badgeCollection = 'app.attested.badge.definition'
const follow = 'app.attested.graph.follow'

/** What every tenth record of an account is, in order. */
const mix: readonly { collection: string; kind?: EntryKind }[] = [
  ...Array.from({ length: 5 }, () => ({ collection: activity, kind: 'cert.create' }) as const),
  ...Array.from(
    { length: 2 },
    () =>
      ({
        collection: 'org.impact.context.evaluation',
        kind: 'evaluation.create',
      }) as const,
  ),
  { collection: 'org.impact.context.attachment', kind: 'update.create' },
  { collection: award, kind: 'endorsement.award' },
  { collection: follow },
]

/** Writes the rows that the index would have written. About a minute for two million records. */
export async function fillCrowdedIndex(
  path: string,
  { accounts, recordsEach }: { accounts: number; recordsEach: number },
): Promise<CrowdedIndex> {
  await using writer = await openIndexWriter(path)
  const didOf = (name: string, index: number): Did =>
    `did:plc:${name}${index.toString(6).replaceAll(/./g, (digit) => `${Number(digit) + 2}`)}`.padEnd(
      32,
      'a',
    ) as Did // made to fit
  const crowd = Array.from({ length: accounts }, (_, index) => didOf('crowd', index))
  const others = Array.from({ length: followed }, (_, index) => didOf('other', index))
  const viewer = didOf('viewer', 0)
  const badgeOwner = didOf('badges', 0)
  const badge = { uri: recordUri(badgeOwner, badgeCollection, 'self'), cid }
  const definition = { badgeType: 'endorsement', title: 'helped' }
  const recordOf = (
    did: Did,
    collection: string,
    rkey: string,
    at: number,
    value: object,
  ): RowOf<'records'> => {
    const time = BigInt(startMicros + at * stepMicros)
    const json = JSON.stringify({ $type: collection, ...value })
    const places = { indexedAt: time, createdAt: time, feedTime: time }
    return { uri: recordUri(did, collection, rkey), did, collection, cid, json, ...places }
  }
  const active = {
    status: 'active',
    statusSeq: 0n,
    hostStatus: null,
    hidden: 0n,
    checkedAt: 0n,
    isAuthor: 1n,
  }
  const making = JSON.stringify({ updateContentTypes: [], views: createRecordViews(loadLexicons()).version })
  await writer.write(async (batch) => {
    // Otherwise the index would prepare all views first.
    await batch.put('policies', [{ name: 'making', value: making }])
    await batch.put(
      'accounts',
      [...crowd, ...others, viewer, badgeOwner].map((did) => ({ did, ...active })),
    )
    await batch.put('records', [recordOf(badgeOwner, badgeCollection, 'self', 0, definition)])
    await batch.put(
      'follows',
      others.map((subject, index) => ({ uri: recordUri(viewer, follow, `f${index}`), viewer, subject })),
    )
    for (const did of others) {
      const records = Array.from({ length: entriesOfFollowed }, (_, index) =>
        recordOf(did, activity, `r${index}`, index, { title: `Trees ${index}` }),
      )
      await batch.put('records', records)
      await batch.put(
        'entries',
        records.map(({ uri, feedTime }) => ({ uri, did, kind: 'cert.create', feedTime })),
      )
    }
  })
  for (const did of crowd) {
    const subject = others[0] ?? did
    const values: Readonly<Record<string, object>> = {
      [follow]: { subject },
      [award]: { badge, subject: { $type: 'app.attested.defs#did', did: subject } },
    }
    const made = Array.from({ length: recordsEach }, (_, index) => {
      const { collection, kind } = mix[index % mix.length] ?? { collection: activity }
      const value = values[collection] ?? { title: `Trees that were planted in the season of ${index}` }
      return { record: recordOf(did, collection, `r${index}`, index, value), kind }
    })
    const records = made.map(({ record }) => record)
    const of = (wanted: string) => records.filter(({ collection }) => collection === wanted)
    await writer.write(async (batch) => {
      await batch.put('records', records)
      await batch.put(
        'entries',
        made.flatMap(({ record: { uri, feedTime }, kind }) => (kind ? [{ uri, did, kind, feedTime }] : [])),
      )
      await batch.put(
        'follows',
        of(follow).map(({ uri }) => ({ uri, viewer: did, subject })),
      )
      await batch.put(
        'awards',
        of(award).map(({ uri }) => ({ uri, issuer: did, subject, badgeUri: badge.uri, badgeCid: badge.cid })),
      )
      await batch.put(
        'endorsements',
        of(award).map(({ uri }) => ({ uri, issuer: did, subject })),
      )
    })
  }
  return { accounts: crowd, viewer, badgeOwner, definition, definitionCid: cid }
}
