/**
 * What entries, endorsements and projects rest on: more than one record each (feed.md sections 5 and 6.1). Given sets of
 * addresses, these statements tell what is to be known of each; nothing is written here.
 */
import { type Did, feedCollections } from '@tributary/protocol'
import { sql, type RawBuilder } from 'kysely'
import type { WriteSession } from '../session.ts'
import { textsAtOnce, type TextSize } from './texts-at-once.ts'

/** Records of one repository this close in feed time can be a project pair (feed.md 6.1). */
const pairMicros = 60_000_000
/** Addresses that are looked at by one statement. */
const perStep = 200
/** Addresses that one statement gives. */
const pageRows = 500
/** Items of collections that one statement compares, unless one record has more: each is another record to look at. */
const itemsPerStep = 2000
/** Items that are compared as fast as a row is read. */
const itemsPerRow = 16
/** Items of one record are counted up to this number. One that has so many is compared by itself: it may have 7,000. */
const itemsCountedMax = 250

/** A visible activity or collection record, and whether it is part of a project pair. */
export interface PairRow {
  readonly uri: string
  readonly did: Did
  readonly feedTime: bigint
  readonly isPaired: boolean
}

/** A visible award that names a badge, with the newest answer of its subject. */
export interface AwardState {
  readonly uri: string
  readonly issuer: Did
  readonly subject: Did
  readonly feedTime: bigint
  readonly badgeUri: string
  readonly badgeCid: string
  readonly isRejected: boolean
}

export interface Content {
  readonly uri: string
  readonly cid: string
}

interface Listed {
  readonly uri: string
}

/** A table whose rows name contents: the columns of their address and of the content, and the order of an index after these. */
interface Naming {
  readonly table: 'collectionItems' | 'awards'
  readonly address: string
  readonly content: readonly [uri: string, cid: string]
  readonly order: readonly string[]
}

/** A place in that order. */
type Place = Listed & Readonly<Record<string, string | bigint>>

export const namings: Readonly<Record<'collections' | 'awards', Naming>> = {
  collections: {
    table: 'collectionItems',
    address: 'collectionUri',
    content: ['activityUri', 'activityCid'],
    order: ['feedTime', 'collectionUri'],
  },
  awards: { table: 'awards', address: 'uri', content: ['badgeUri', 'badgeCid'], order: ['uri'] },
}

export class Classification {
  readonly #session: WriteSession

  constructor(session: WriteSession) {
    this.#session = session
  }

  /** Those of the activities that are visible, some at a time. */
  async *activities(uris: readonly string[]): AsyncGenerator<{ asked: readonly string[]; rows: PairRow[] }> {
    for (const asked of stepsOf(uris))
      yield { asked, rows: await this.#pairs(activityStatesOf(this.#session, asked)) }
  }

  /** Those of the collection records that are visible, some at a time. */
  async *collections(uris: readonly string[]): AsyncGenerator<{ asked: readonly string[]; rows: PairRow[] }> {
    for await (const asked of this.#byItems(uris))
      yield { asked, rows: await this.#pairs(collectionStatesOf(this.#session, asked)) }
  }

  async #pairs(statement: PairStatement): Promise<PairRow[]> {
    const rows = await this.#session.all(statement)
    return rows.map((row) => ({ ...row, isPaired: Number(row.isPaired) === 1 }))
  }

  /** Collections whose items are compared by one statement. */
  async *#byItems(uris: readonly string[]): AsyncGenerator<string[]> {
    const { all, dialect } = this.#session
    for (const some of stepsOf(uris)) {
      const counts = await all(sql<Listed & { items: bigint }>`
        select asked."value" as "uri", (select count(*) from (select 1 from "collectionItems"
          where "collectionUri" = asked."value" limit ${itemsCountedMax}) as counted) as "items"
        from ${dialect.listed(some)} as asked`)
      let [step, items]: [string[], number] = [[], 0]
      for (const each of counts) {
        const own = Number(each.items) < itemsCountedMax ? Number(each.items) : itemsPerStep
        if (step.length > 0 && items + own > itemsPerStep) {
          this.#session.weigh?.(Math.ceil(items / itemsPerRow))
          yield step
          ;[step, items] = [[], 0]
        }
        step.push(each.uri)
        items += own
      }
      this.#session.weigh?.(Math.ceil(items / itemsPerRow))
      yield step
    }
  }

  /** Those of the awards that are visible and name a badge, some at a time. */
  async *awards(uris: readonly string[]): AsyncGenerator<{ asked: readonly string[]; rows: AwardState[] }> {
    for (const asked of stepsOf(uris)) {
      const rows = await this.#session.all(awardStatesOf(this.#session, asked))
      yield {
        asked,
        rows: rows.map(({ rejected, ...row }) => ({ ...row, isRejected: rejected === 1n })),
      }
    }
  }

  /**
   * The text of visible records by address and content, a few at a time, because each may have a megabyte. Those that are
   * asked for and not given are not visible. The shortest come first, so that a few long ones hold up no others.
   */
  async *definitions(
    wanted: readonly Content[],
  ): AsyncGenerator<{ asked: readonly Content[]; rows: (Content & { json: string })[] }> {
    const { all, dialect } = this.#session
    for (const some of stepsOf(wanted)) {
      const sizes = await all(sql<TextSize>`
        select "uri", octet_length("json") as "bytes" from "visibleRecords"
        where ("uri", "cid") in ${dialect.listedPairs(some.map(({ uri, cid }) => [uri, cid]))}
        order by "bytes"`)
      const found = new Set(sizes.map(({ uri }) => uri))
      yield { asked: some.filter(({ uri }) => !found.has(uri)), rows: [] }
      for (const group of textsAtOnce(sizes)) {
        const rows = await all(sql<Content & { json: string }>`
          select "uri", "cid", "json" from "visibleRecords" where "uri" in ${dialect.listed(group)}`)
        yield { asked: some.filter(({ uri }) => group.includes(uri)), rows }
      }
    }
  }

  /** The collection records that list activities with just these contents, in pages; some may come twice. */
  collectionsListing(contents: readonly Content[]): AsyncGenerator<string[]> {
    return this.#naming(contents, namings.collections)
  }

  /** The awards that name definitions with just these contents, in pages; some may come twice. */
  awardsOfBadges(contents: readonly Content[]): AsyncGenerator<string[]> {
    return this.#naming(contents, namings.awards)
  }

  /** The collection records of an account, in pages. */
  async *collectionsOf(did: Did): AsyncGenerator<string[]> {
    const end = `at://${did}/${feedCollections.collection}0`
    for (let after = `at://${did}/${feedCollections.collection}/`; ;) {
      const page = await this.#session.all(sql<Listed>`select "uri" from "records"
        where "uri" > ${after} and "uri" < ${end} order by "uri" limit ${pageRows}`)
      if (page.length > 0) yield page.map(({ uri }) => uri)
      const last = page.at(-1)
      if (last === undefined || page.length < pageRows) return
      after = last.uri
    }
  }

  /** The awards that name any definition of an account, in pages. */
  async *awardsOfBadgesOf(did: Did): AsyncGenerator<string[]> {
    const end = `at://${did}0`
    let last = { uri: '', badgeUri: `at://${did}/`, badgeCid: '' }
    for (;;) {
      const page = await this.#session.all(sql<typeof last>`
        select "uri", "badgeUri", "badgeCid" from "awards"
        where ("badgeUri", "badgeCid", "uri") > (${last.badgeUri}, ${last.badgeCid}, ${last.uri})
          and "badgeUri" < ${end}
        order by "badgeUri", "badgeCid", "uri" limit ${pageRows}`)
      if (page.length > 0) yield page.map(({ uri }) => uri)
      const lastRow = page.at(-1)
      if (lastRow === undefined || page.length < pageRows) return
      last = lastRow
    }
  }

  /** Few name most contents, so many are asked about at once; where there are more than a page, each by itself. */
  async *#naming(contents: readonly Content[], naming: Naming): AsyncGenerator<string[]> {
    const { all, dialect } = this.#session
    const { table, address, content } = naming
    for (const some of stepsOf(contents)) {
      const page = await all(sql<Listed>`select ${sql.ref(address)} as "uri" from ${sql.table(table)}
        where (${listOf(content)}) in ${dialect.listedPairs(some.map(({ uri, cid }) => [uri, cid]))} limit ${pageRows}`)
      if (page.length < pageRows) {
        if (page.length > 0) yield page.map(({ uri }) => uri)
        continue
      }
      for (const each of some) {
        let last: Place | undefined
        do {
          const next: Place[] = await all(pageNaming(naming, each, last))
          if (next.length > 0) yield next.map(({ uri }) => uri)
          last = next.length < pageRows ? undefined : next.at(-1)
        } while (last !== undefined)
      }
    }
  }
}

/** Statement that gives the next page of what names a content. */
export function pageNaming(
  { table, address, content: [uri, cid], order }: Naming,
  content: Content,
  last?: Place,
): RawBuilder<Place> {
  const after = last && sql`and (${listOf(order)}) > (${sql.join(order.map((column) => last[column]))})`
  return sql`select ${sql.ref(address)} as "uri", ${listOf(order)} from ${sql.table(table)}
    where ${sql.ref(uri)} = ${content.uri} and ${sql.ref(cid)} = ${content.cid} ${after ?? sql``}
    order by ${listOf(order)} limit ${pageRows}`
}

function listOf(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(column)))
}

type PairStatement = RawBuilder<Omit<PairRow, 'isPaired'> & { isPaired: bigint }>

/** The collection records near an activity in time are a range of an index, because any number of them may list it. */
export function activityStatesOf(
  session: Pick<WriteSession, 'dialect'>,
  uris: readonly string[],
): PairStatement {
  const near = sql`item."feedTime" > own."feedTime" - ${sql.lit(pairMicros)}
    and item."feedTime" < own."feedTime" + ${sql.lit(pairMicros)}`
  return pairsOf(
    session,
    uris,
    sql`select 1 from "collectionItems" as item
      where item."activityUri" = own."uri" and item."activityCid" = own."cid" and ${near}`,
  )
}

function collectionStatesOf(session: Pick<WriteSession, 'dialect'>, uris: readonly string[]): PairStatement {
  return pairsOf(
    session,
    uris,
    sql`select 1 from "collectionItems" as item join "records" as other
        on other."uri" = item."activityUri" and other."cid" = item."activityCid"
      where item."collectionUri" = own."uri"
        and abs(other."feedTime" - own."feedTime") < ${sql.lit(pairMicros)}`,
  )
}

/** Those of the records that are visible. @param partners what makes a pair with `own` */
function pairsOf(
  { dialect }: Pick<WriteSession, 'dialect'>,
  uris: readonly string[],
  partners: RawBuilder<unknown>,
): PairStatement {
  return sql`select own."uri", own."did", own."feedTime",
      case when exists (${partners}) then 1 else 0 end as "isPaired"
    from "visibleRecords" as own where own."uri" in ${dialect.listed(uris)}`
}

/** The newest answer of each subject is one step in an index, however many it gave. */
export function awardStatesOf(
  { dialect }: Pick<WriteSession, 'dialect'>,
  uris: readonly string[],
): RawBuilder<Omit<AwardState, 'isRejected'> & { rejected: bigint | null }> {
  return sql`
    select award."uri", award."issuer", award."subject", own."feedTime", award."badgeUri", award."badgeCid",
      (select answer."rejected" from "responses" as answer
       where answer."awardUri" = award."uri" and answer."awardCid" = own."cid" and answer."did" = award."subject"
         and not exists (select 1 from "accounts" where "did" = award."subject" and "hidden" = 1)
       order by answer."feedTime" desc, answer."indexedAt" desc, answer."uri" desc limit 1) as "rejected"
    from "awards" as award join "visibleRecords" as own on own."uri" = award."uri"
    where award."uri" in ${dialect.listed(uris)}`
}

function* stepsOf<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < all.length; at += perStep) yield all.slice(at, at + perStep)
}
