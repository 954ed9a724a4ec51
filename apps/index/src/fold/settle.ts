/** Classifies again what rests on more than one record, and writes the rows that a feed reads of it. */
import type { AwardState, Batch, Content, RowOf } from '@tributary/index-store'
import type { Affected } from './affected.ts'
import type { CutPoints } from './cuts.ts'
import { Endorsements } from './endorsements.ts'
import type { IndexRows, Listing } from './index-rows.ts'

type Entry = RowOf<'entries'>
type Item = RowOf<'collectionItems'>

/** Collection records whose items are replaced by the same statements. */
const collectionsPerStep = 200
/** Items from which on they are compared with those that are there, because one record may list 7,000 and edits change few. */
const itemsCompared = 500

/** Writes what has changed and settles what was noted, if that is much: what is noted in memory has a bound. */
export async function settleWhenMuch(batch: Batch, rows: IndexRows, cuts?: CutPoints): Promise<void> {
  if (!rows.isMuchNoted) return
  await writeChanges(batch, rows, cuts)
  await settleNoted(batch, rows, cuts)
}

/** Writes what has changed. Items of collections are replaced some at a time, because thousands of records may have thousands each. */
export async function writeChanges(batch: Batch, rows: IndexRows, cuts?: CutPoints): Promise<void> {
  await rows.flush(batch)
  const changed = [...rows.takeChangedItems()]
  for (const [uri] of changed) cuts?.listings.add(uri)
  for (let at = 0; at < changed.length; at += collectionsPerStep)
    await replaceItems(batch, rows, changed.slice(at, at + collectionsPerStep), cuts)
}

async function replaceItems(
  batch: Batch,
  rows: IndexRows,
  changed: readonly (readonly [collectionUri: string, listing: Listing])[],
  cuts?: CutPoints,
): Promise<void> {
  const replaced = changed.filter(([, { items }]) => items.length < itemsCompared)
  for await (const activities of batch.removeItems(replaced.map(([uri]) => uri))) {
    for (const uri of activities) rows.affected.activities.add(uri)
    if (rows.isMuchNoted) await settleNoted(batch, rows, cuts)
    await cuts?.cut()
  }
  for (const [collectionUri, { items, feedTime }] of changed) {
    const listed = items.map(({ uri, cid }) => ({
      collectionUri,
      activityUri: uri,
      activityCid: cid,
      feedTime,
    }))
    const isCompared = listed.length >= itemsCompared
    const { fresh, gone } = isCompared
      ? await difference(batch, collectionUri, listed)
      : { fresh: listed, gone: [] }
    await batch.removeListed(collectionUri, gone)
    await batch.put('collectionItems', fresh)
    for (const { activityUri } of [...gone, ...fresh]) rows.affected.activities.add(activityUri)
    // Its own note may have been settled while it had no items.
    rows.affected.byCollection(collectionUri)
    cuts?.listings.delete(collectionUri)
    if (rows.isMuchNoted) await settleNoted(batch, rows, cuts)
    await cuts?.cut()
  }
}

/** Tells these items apart that have to be written, and finds those that are there besides them. */
async function difference(
  batch: Batch,
  collectionUri: string,
  listed: readonly Item[],
): Promise<{ fresh: Item[]; gone: Item[] }> {
  const keyOf = ({ activityUri, activityCid }: Item): string => `${activityUri} ${activityCid}`
  const present = await batch.load('collectionItems', [collectionUri])
  const gone = new Map(present.map((item) => [keyOf(item), item]))
  const fresh: Item[] = []
  for (const item of listed) {
    const key = keyOf(item)
    if (gone.get(key)?.feedTime !== item.feedTime) fresh.push(item)
    gone.delete(key)
  }
  return { fresh, gone: [...gone.values()] }
}

async function settleNoted(batch: Batch, rows: IndexRows, cuts?: CutPoints): Promise<void> {
  await settle(batch, rows.affected, cuts)
  rows.affected.clear()
}

/**
 * Settling again what has not changed changes nothing. Where `cuts` have a bound for it, what rests on the records of one
 * author and is much is noted, to be done beside the events.
 */
export async function settle(batch: Batch, affected: Affected, cuts?: CutPoints): Promise<void> {
  const beside = cuts?.beside
  if (cuts === undefined || beside === undefined) return settleAll(batch, affected, cuts)
  // A small award may name a definition of a megabyte: few of these are read here, and what names the others rests on them.
  await settleAll(batch, affected.own, cuts, (badge) => affected.byBadge(badge))
  const resting = await beside.notNoted(affected.resting)
  const isDone = (some: Affected): Promise<boolean> =>
    beside.isDone((within) => settleAll(batch, some, within))
  if (resting.size === 0 || (await isDone(resting))) return
  const byAuthor = resting.byAuthor()
  for (const [did, some] of byAuthor) {
    const isSettled = byAuthor.size > 1 && (await isDone(some))
    if (!isSettled) await beside.put(did, { affected: some })
    await cuts.cut()
  }
}

/**
 * The same, whatever it is about.
 * @param onLarge takes the contents whose awards were left out, because much text was read already. Default: all is read.
 */
export async function settleAll(
  batch: Batch,
  affected: Affected,
  cuts?: CutPoints,
  onLarge?: (badge: Content) => void,
): Promise<void> {
  for await (const { asked, rows } of batch.classes.activities([...affected.activities])) {
    const shown = rows.filter(({ isPaired }) => !isPaired)
    await replaceEntries(
      batch,
      asked,
      shown.map(({ uri, did, feedTime }) => ({ uri, did, feedTime, kind: 'cert.create' })),
    )
    await cuts?.cut()
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
      await cuts?.cut()
    }
  }
  let endorsements = new Endorsements(batch)
  for await (const page of affected.awards(batch)) {
    for (let wanted = page; wanted.length > 0;) {
      const allLeft: string[] = []
      for await (const { asked, rows } of batch.classes.awards(wanted)) {
        const { valid, left } = await endorsements.among(rows)
        const settled = asked.filter((uri) => !left.has(uri))
        await settleAwards(batch, settled, valid)
        if (onLarge === undefined) allLeft.push(...left)
        else
          for (const { uri, badgeUri, badgeCid } of rows)
            if (left.has(uri)) onLarge({ uri: badgeUri, cid: badgeCid })
        if (await cuts?.cut()) endorsements = new Endorsements(batch)
      }
      wanted = allLeft
    }
  }
}

/** The awards that are valid, among those that were asked for. */
async function settleAwards(
  batch: Batch,
  asked: readonly string[],
  valid: readonly AwardState[],
): Promise<void> {
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
