/** Classifies again what rests on more than one record, and writes the rows that a feed reads of it. */
import type { AwardState, Batch, RowOf } from '@tributary/index-store'
import type { Affected } from './affected.ts'
import { isEndorsementBy, type RecordValue } from './record-facts.ts'

type Entry = RowOf<'entries'>

/** Settling again what has not changed changes nothing. */
export async function settle(batch: Batch, affected: Affected): Promise<void> {
  for await (const { asked, rows } of batch.classes.activities([...affected.activities])) {
    const shown = rows.filter(({ isPaired }) => !isPaired)
    await replaceEntries(
      batch,
      asked,
      shown.map(({ uri, did, feedTime }) => ({ uri, did, feedTime, kind: 'cert.create' })),
    )
  }
  for await (const page of affected.collections(batch)) {
    for await (const { asked, rows } of batch.classes.collections(page)) {
      const entries = rows.map(({ uri, did, feedTime, isPaired }): Entry => ({
        uri,
        did,
        feedTime,
        kind: isPaired ? 'project.created_with_cert' : 'collection.create',
      }))
      await replaceEntries(batch, asked, entries)
    }
  }
  for await (const page of affected.awards(batch)) {
    for await (const { asked, rows } of batch.classes.awards(page)) await settleAwards(batch, asked, rows)
  }
}

/** Rules 3 to 6 of feed.md section 5; 1 and 2 held when the awards were stored. */
async function settleAwards(
  batch: Batch,
  asked: readonly string[],
  awards: readonly AwardState[],
): Promise<void> {
  const byBadge = Map.groupBy(
    awards.filter(({ isRejected }) => !isRejected),
    badgeKey,
  )
  const wanted = [...byBadge.values()].flatMap(([award]) =>
    award === undefined ? [] : [{ uri: award.badgeUri, cid: award.badgeCid }],
  )
  const valid: AwardState[] = []
  for await (const definitions of batch.classes.definitions(wanted)) {
    for (const { uri, cid, json } of definitions) {
      const definition = JSON.parse(json) as RecordValue // stored from an object
      const named = byBadge.get(badgeKey({ badgeUri: uri, badgeCid: cid })) ?? []
      valid.push(...named.filter(({ issuer }) => isEndorsementBy(issuer, definition)))
    }
  }
  const endorsements = valid.map(({ uri, issuer, subject }) => ({ uri, issuer, subject }))
  await batch.remove('endorsements', except(asked, endorsements))
  await batch.put('endorsements', endorsements)
  const entries = valid.map(({ uri, issuer, feedTime }): Entry => ({
    uri,
    did: issuer,
    feedTime,
    kind: 'endorsement.award',
  }))
  await replaceEntries(batch, asked, entries)
}

/** The records that have an entry, among those that were asked for. */
async function replaceEntries(
  batch: Batch,
  asked: readonly string[],
  entries: readonly Entry[],
): Promise<void> {
  await batch.remove('entries', except(asked, entries))
  await batch.put('entries', entries)
}

function except(uris: readonly string[], rows: readonly { uri: string }[]): string[] {
  const kept = new Set(rows.map(({ uri }) => uri))
  return uris.filter((uri) => !kept.has(uri))
}

function badgeKey({ badgeUri, badgeCid }: { badgeUri: string; badgeCid: string }): string {
  return `${badgeUri} ${badgeCid}`
}
