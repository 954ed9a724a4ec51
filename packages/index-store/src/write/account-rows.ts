/** All rows of one account, which may be many, and each record may have a megabyte: a few at a time. */
import type { Did } from '@tributary/protocol'
import { sql } from 'kysely'
import type { RecordsTable } from '../schema.ts'
import type { WriteSession } from '../session.ts'
import type { TableName } from '../tables.ts'
import { removeItems } from './collection-items.ts'
import { textsAtOnce, type TextSize } from './texts-at-once.ts'

/** Rows that are read or removed by one statement. */
const rowsPerStep = 50
/** The same for addresses alone. */
const addressesPerStep = 500
/** Records that are removed by one statement: one of a megabyte takes SQLite a millisecond or two. */
const recordsRemovedPerStep = 20
/** Addresses read at a time where most are passed over. */
const addressesPerPage = 2000

/** Tables whose rows have an address in the account's repository. */
const byAddress: readonly TableName[] = ['records', 'views', 'awards']
const shown: readonly TableName[] = ['entries', 'endorsements', 'follows']

/** A record without its text, which may have a megabyte. */
export type RecordRow = Pick<RecordsTable, 'uri' | 'did' | 'collection' | 'cid' | 'feedTime'>
export type StoredRow = RecordRow & Pick<RecordsTable, 'json'>

const rowColumns = sql`"uri", "did", "collection", "cid", "feedTime"`

export class AccountRows {
  readonly #session: WriteSession

  constructor(session: WriteSession) {
    this.#session = session
  }

  /** Pages of the account's records, so that the caller may write in between. */
  async *records(did: Did): AsyncGenerator<RecordRow[]> {
    const [start, end] = addressRange(did)
    for (let after = start; ;) {
      const page = await this.#session.all(sql<RecordRow>`select ${rowColumns} from "records"
        where "uri" > ${after} and "uri" < ${end} order by "uri" limit ${rowsPerStep}`)
      if (page.length > 0) yield page
      const last = page.at(-1)
      if (last === undefined || page.length < rowsPerStep) return
      after = last.uri
    }
  }

  /** Pages of the addresses of awards that the account has answered. */
  async *answeredAwards(did: Did): AsyncGenerator<string[]> {
    const [start, end] = addressRange(did)
    for (let after = start; ;) {
      const page = await this.#session.all(sql<{ uri: string; awardUri: string }>`
        select "uri", "awardUri" from "responses"
        where "uri" > ${after} and "uri" < ${end} order by "uri" limit ${addressesPerStep}`)
      if (page.length > 0) yield page.map(({ awardUri }) => awardUri)
      const last = page.at(-1)
      if (last === undefined || page.length < addressesPerStep) return
      after = last.uri
    }
  }

  /** Removes the account's answers, and gives the addresses of the awards that they were about, in pages. */
  async *removeAnswers(did: Did): AsyncGenerator<string[]> {
    const [start, end] = addressRange(did)
    for (;;) {
      const removed = await this.#session.all(sql<{ awardUri: string }>`delete from "responses" where "uri" in
        (select "uri" from "responses" where "uri" > ${start} and "uri" < ${end} limit ${addressesPerStep})
        returning "awardUri"`)
      if (removed.length === 0) return
      yield removed.map(({ awardUri }) => awardUri)
    }
  }

  /** Removes the account's records and what they state, in steps. Its answers are for `removeAnswers`. */
  async *removeRecords(did: Did): AsyncGenerator<void> {
    const [start, end] = addressRange(did)
    for (const table of byAddress) yield* this.#removeByAddress(table, start, end)
    const items = sql`"collectionUri" > ${start} and "collectionUri" < ${end}`
    for await (const _ of removeItems(this.#session, items)) yield
  }

  /** Notes the places of the account's records, so that they can be taken up again, in steps. */
  async *keepPlaces(did: Did, at: bigint): AsyncGenerator<void> {
    const [start, end] = addressRange(did)
    for (let after = start; ;) {
      const kept = await this.#session.all(sql<{ uri: string }>`
        insert into "superseded" ("uri", "did", "cid", "indexedAt", "createdAt", "supersededAt")
        select "uri", "did", "cid", "indexedAt", "createdAt", cast(${at} as bigint) from "records"
        where "uri" > ${after} and "uri" < ${end} order by "uri" limit ${addressesPerStep}
        on conflict ("uri") do update set "cid" = excluded."cid", "indexedAt" = excluded."indexedAt",
          "createdAt" = excluded."createdAt", "supersededAt" = excluded."supersededAt"
        returning "uri"`)
      if (kept.length < addressesPerStep) return
      yield
      after = lastOf(kept, after)
    }
  }

  async *forgetPlaces(did: Did): AsyncGenerator<void> {
    const [start, end] = addressRange(did)
    yield* this.#removeByAddress('superseded', start, end)
  }

  /** Removes what feeds show of the account, in steps. Rows of others that rest on it stay. */
  async *removeShown(did: Did): AsyncGenerator<void> {
    const [start, end] = addressRange(did)
    for (const table of shown) yield* this.#removeByAddress(table, start, end)
    await this.#session.remove('organizations', [did])
  }

  /** The next addresses of all accounts in their order; at the end none. */
  recordAddresses(after: string): Promise<{ uri: string; collection: string }[]> {
    return this.#session.all(sql<{ uri: string; collection: string }>`
      select "uri", "collection" from "records" where "uri" > ${after} order by "uri" limit ${addressesPerPage}`)
  }

  /** Some records with their text, a few at a time, because each may have a megabyte. */
  async *recordsAt(uris: readonly string[]): AsyncGenerator<StoredRow[]> {
    const { all, dialect } = this.#session
    for (let at = 0; at < uris.length; at += addressesPerStep) {
      const sizes = await all(sql<TextSize>`select "uri", octet_length("json") as "bytes" from "records"
        where "uri" in ${dialect.listed(uris.slice(at, at + addressesPerStep))}`)
      for (const some of textsAtOnce(sizes))
        yield await all(
          sql<StoredRow>`select ${rowColumns}, "json" from "records" where "uri" in ${dialect.listed(some)}`,
        )
    }
  }

  /** In the order of addresses, because PostgreSQL passes over all that was removed before. */
  async *#removeByAddress(table: TableName, start: string, end: string): AsyncGenerator<void> {
    const name = sql.table(table)
    const count = table === 'records' ? recordsRemovedPerStep : rowsPerStep
    for (let after = start; ;) {
      const rows = await this.#session.all(sql<{ uri: string }>`delete from ${name} where "uri" in
        (select "uri" from ${name} where "uri" > ${after} and "uri" < ${end} order by "uri" limit ${count})
        returning "uri"`)
      if (rows.length < count) return
      yield
      after = lastOf(rows, after)
    }
  }
}

/** The last address of rows that are in no order. */
function lastOf(rows: readonly { uri: string }[], after: string): string {
  return rows.reduce((last, { uri }) => (uri > last ? uri : last), after)
}

/** The addresses of an account's records lie strictly between these two, compared by bytes: `0` follows `/`. */
function addressRange(did: Did): [from: string, to: string] {
  return [`at://${did}/`, `at://${did}0`]
}
