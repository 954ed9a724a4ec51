/**
 * The items of collection records: a record may have thousands, and one activity may be listed by any number of records. So
 * they are removed some at a time, in the order of their key. Looked for by activity, each would be found among all that
 * list it.
 */
import { type RawBuilder, sql } from 'kysely'
import type { WriteSession } from '../session.ts'
import type { RowOf } from '../tables.ts'

/** Items that are removed by one statement. */
const itemsPerStep = 500

type Item = Pick<RowOf<'collectionItems'>, 'collectionUri' | 'activityUri' | 'activityCid'>

const key = sql`"collectionUri", "activityUri", "activityCid"`

/** Removes the items of some records, and gives the activities that were listed, in pages. */
export async function* removeItemsOf(
  session: WriteSession,
  collectionUris: readonly string[],
): AsyncGenerator<string[]> {
  const those = sql`"collectionUri" in ${session.dialect.listed(collectionUris)}`
  const some = await session.all(
    sql<Item>`select ${key} from "collectionItems" where ${those} limit ${itemsPerStep}`,
  )
  if (some.length === 0) return
  if (some.length < itemsPerStep) {
    await session.all(sql`delete from "collectionItems" where ${those}`)
    yield some.map(({ activityUri }) => activityUri)
    return
  }
  for (const uri of collectionUris) yield* removeItems(session, sql`"collectionUri" = ${uri}`)
}

/** Removes these items of a record. */
export async function removeListed(
  { all, dialect }: WriteSession,
  collectionUri: string,
  items: readonly Item[],
): Promise<void> {
  for (let at = 0; at < items.length; at += itemsPerStep) {
    const some = items
      .slice(at, at + itemsPerStep)
      .map(({ activityUri, activityCid }) => [activityUri, activityCid] as const)
    await all(sql`delete from "collectionItems" where "collectionUri" = ${collectionUri}
      and ("activityUri", "activityCid") in ${dialect.listedPairs(some)}`)
  }
}

/** Removes the items of a range of records, or of one. What was removed is still there to be passed over in PostgreSQL. */
export async function* removeItems(
  { all }: WriteSession,
  ofRecords: RawBuilder<unknown>,
): AsyncGenerator<string[]> {
  let last: Item | undefined = { collectionUri: '', activityUri: '', activityCid: '' }
  for (let count = itemsPerStep; count === itemsPerStep;) {
    const next = sql`${ofRecords} and (${key}) > ${placeOf(last)}`
    const page: Item[] = await all(
      sql<Item>`select ${key} from "collectionItems" where ${next} order by ${key} limit ${itemsPerStep}`,
    )
    last = page.at(-1)
    if (last === undefined) return
    await all(sql`delete from "collectionItems" where ${next} and (${key}) <= ${placeOf(last)}`)
    yield page.map(({ activityUri }) => activityUri)
    count = page.length
  }
}

function placeOf({ collectionUri, activityUri, activityCid }: Item): RawBuilder<unknown> {
  return sql`(${collectionUri}, ${activityUri}, ${activityCid})`
}
