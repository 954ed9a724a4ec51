/**
 * The steps that bring a database to the present schema. A step that has been released is never edited; a change is a
 * new step. Apart from a `Form`, statements stay within what SQLite and PostgreSQL both take.
 */
import { sql, type Kysely, type RawBuilder } from 'kysely'
import type { Migration } from 'kysely/migration'

const steps = {
  '0001-records': createRecords,
  '0002-statements': createStatements,
  '0003-feed': createFeedTables,
  '0004-sources': createSources,
  '0005-views': createViews,
  '0006-authors': tellAuthors,
  '0007-folded-events': createFoldedEvents,
  '0008-proven-handles': askForHandlesAgain,
  '0009-newest-responses': orderResponses,
  '0010-newest-entries': orderEntries,
  '0011-records-without-rev': dropUnread,
  '0012-dated-items': dateItems,
  '0013-pages-in-order': orderPages,
  '0014-text-last': putTextLast,
  '0015-deleted-authors': checkDeleted,
  '0016-early-vacuum': vacuumEarly,
  '0017-remakes': createRemakes,
  '0018-remakes-in-order': orderRemakes,
}

/** What the two databases spell differently. */
interface Form {
  /** The type of text, which compares by its bytes. */
  readonly text: 'text' | RawBuilder<unknown>
  /** Rows live in the primary key's tree, where there is such a form. */
  readonly clustered: RawBuilder<unknown>
  /** What stands after a long text in a row is found by reading through the text. */
  readonly readsThroughTexts: boolean
  /** Rows that were removed stay in the way of reading until a table is vacuumed. */
  readonly isVacuumed: boolean
}

const forms: Readonly<Record<'sqlite' | 'postgres', Form>> = {
  sqlite: { text: 'text', clustered: sql`without rowid`, readsThroughTexts: true, isVacuumed: false },
  postgres: { text: sql`text collate "C"`, clustered: sql``, readsThroughTexts: false, isVacuumed: true },
}

/** In the order in which they run. */
export const migrationNames: readonly string[] = Object.keys(steps).toSorted()

export function migrationsOf(database: 'sqlite' | 'postgres'): Record<string, Migration> {
  const form = forms[database]
  return Object.fromEntries(
    Object.entries(steps).map(([name, step]) => [name, { up: (db: Kysely<unknown>) => step(db, form) }]),
  )
}

/** Why a migrator has failed, for operators. @param database how they know the database. */
export function migrationFault(database: string, cause: unknown): Error {
  const later = /previously executed migration (\S+) is missing/.exec(String(cause))?.[1]
  if (later === undefined) return new Error(`${database} could not be migrated`, { cause })
  return new Error(
    `${database} has schema ${later}, and this index knows none after ${migrationNames.at(-1)}: a newer index has written it`,
  )
}

async function createRecords(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  // An account's records are the range of addresses that begin with its DID, so the primary key finds them.
  await db.schema
    .createTable('records')
    .addColumn('uri', text, (c) => c.primaryKey())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('collection', text, (c) => c.notNull())
    .addColumn('rkey', text, (c) => c.notNull())
    .addColumn('cid', text, (c) => c.notNull())
    .addColumn('rev', text, (c) => c.notNull())
    .addColumn('json', text, (c) => c.notNull())
    .addColumn('indexedAt', 'bigint', (c) => c.notNull())
    .addColumn('createdAt', 'bigint')
    .addColumn('feedTime', 'bigint', (c) => c.notNull())
    .execute()

  await db.schema
    .createTable('accounts')
    .addColumn('did', text, (c) => c.primaryKey().notNull())
    .addColumn('status', text, (c) => c.notNull())
    .addColumn('statusSeq', 'bigint', (c) => c.notNull())
    .addColumn('hostStatus', text)
    .addColumn('hidden', 'bigint', (c) => c.notNull())
    .addColumn('checkedAt', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema.createIndex('accountsByCheck').on('accounts').column('checkedAt').execute()

  await createVisibleRecords(db)

  await db.schema
    .createTable('superseded')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('cid', text, (c) => c.notNull())
    .addColumn('indexedAt', 'bigint', (c) => c.notNull())
    .addColumn('createdAt', 'bigint')
    .addColumn('supersededAt', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema.createIndex('supersededByTime').on('superseded').column('supersededAt').execute()
}

async function createVisibleRecords(db: Kysely<unknown>): Promise<void> {
  const visible = sql`select * from "records" where not exists
    (select 1 from "accounts" where "accounts"."did" = "records"."did" and "accounts"."hidden" = 1)`
  await db.schema.createView('visibleRecords').as(visible).execute()
}

async function createStatements(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  await db.schema
    .createTable('collectionItems')
    .addColumn('collectionUri', text, (c) => c.notNull())
    .addColumn('activityUri', text, (c) => c.notNull())
    .addColumn('activityCid', text, (c) => c.notNull())
    .addPrimaryKeyConstraint('collectionItemsKey', ['collectionUri', 'activityUri', 'activityCid'])
    .modifyEnd(clustered)
    .execute()
  await db.schema
    .createIndex('collectionItemsByActivity')
    .on('collectionItems')
    .columns(['activityUri', 'activityCid'])
    .execute()

  await db.schema
    .createTable('awards')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('issuer', text, (c) => c.notNull())
    .addColumn('subject', text, (c) => c.notNull())
    .addColumn('badgeUri', text, (c) => c.notNull())
    .addColumn('badgeCid', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema.createIndex('awardsByBadge').on('awards').columns(['badgeUri', 'badgeCid']).execute()

  await db.schema
    .createTable('responses')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('awardUri', text, (c) => c.notNull())
    .addColumn('awardCid', text, (c) => c.notNull())
    .addColumn('rejected', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema
    .createIndex('responsesByAward')
    .on('responses')
    .columns(['awardUri', 'awardCid', 'did'])
    .execute()
}

async function createFeedTables(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  await db.schema
    .createTable('entries')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('kind', text, (c) => c.notNull())
    .addColumn('feedTime', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema
    .createIndex('entriesByAuthor')
    .on('entries')
    .columns(['did', 'feedTime desc', 'uri desc', 'kind'])
    .execute()
  await db.schema
    .createIndex('entriesByAuthorAndKind')
    .on('entries')
    .columns(['did', 'kind', 'feedTime desc', 'uri desc'])
    .execute()

  await db.schema
    .createTable('endorsements')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('issuer', text, (c) => c.notNull())
    .addColumn('subject', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema
    .createIndex('endorsementsByIssuer')
    .on('endorsements')
    .columns(['issuer', 'subject'])
    .execute()

  await db.schema
    .createTable('follows')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('viewer', text, (c) => c.notNull())
    .addColumn('subject', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema.createIndex('followsByViewer').on('follows').columns(['viewer', 'subject']).execute()

  await db.schema
    .createTable('policies')
    .addColumn('name', text, (c) => c.primaryKey().notNull())
    .addColumn('value', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()

  await db.schema
    .createTable('organizations')
    .addColumn('did', text, (c) => c.primaryKey().notNull())
    .modifyEnd(clustered)
    .execute()
}

async function createSources(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  await db.schema
    .createTable('cursors')
    .addColumn('source', text, (c) => c.primaryKey().notNull())
    .addColumn('cursor', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()

  await db.schema
    .createTable('handles')
    .addColumn('did', text, (c) => c.primaryKey().notNull())
    .addColumn('handle', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema
    .createTable('handleRequests')
    .addColumn('did', text, (c) => c.primaryKey().notNull())
    .addColumn('seq', 'bigint', (c) => c.notNull())
    .addColumn('attempts', 'bigint', (c) => c.notNull())
    .addColumn('dueAt', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
  await db.schema.createIndex('handleRequestsByTime').on('handleRequests').column('dueAt').execute()

  await db.schema
    .createTable('labels')
    .addColumn('src', text, (c) => c.notNull())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('uri', text, (c) => c.notNull())
    .addColumn('cid', text)
    .addColumn('val', text, (c) => c.notNull())
    .addColumn('neg', 'bigint', (c) => c.notNull())
    .addColumn('cts', 'bigint', (c) => c.notNull())
    .addColumn('exp', 'bigint')
    .execute()
  // A label that arrives again, after a lost cursor or from a labeler that counts anew, is the same row.
  await sql`create unique index "labelsOnce" on "labels"
    ("did", "src", "val", "cts", "neg", "uri", coalesce("cid", ''), coalesce("exp", -1))`.execute(db)
}

/** A table apart from the records, because a page reads views, and a record may have a megabyte. */
async function createViews(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  await db.schema
    .createTable('views')
    .addColumn('uri', text, (c) => c.primaryKey().notNull())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('view', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
}

/** Accounts without a record, of which only their inactive state is kept, are neither looked up nor asked about. */
async function tellAuthors(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('accounts')
    .addColumn('isAuthor', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute()
  await sql`update "accounts" set "isAuthor" = 1 where exists (select 1 from "records"
    where "uri" > 'at://' || "accounts"."did" || '/' and "uri" < 'at://' || "accounts"."did" || '0')`.execute(
    db,
  )
  await sql`delete from "accounts" where "isAuthor" = 0 and "status" = 'active'`.execute(db)
  for (const table of ['handles', 'handleRequests']) {
    await sql`delete from ${sql.table(table)} where "did" not in
      (select "did" from "accounts" where "isAuthor" = 1)`.execute(db)
  }
  await db.schema.dropIndex('accountsByCheck').execute()
  await sql`create index "accountsByCheck" on "accounts" ("checkedAt")
    where "isAuthor" = 1 and "status" <> 'deleted'`.execute(db)
}

async function createFoldedEvents(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  await db.schema
    .createTable('foldedEvents')
    .addColumn('seq', 'bigint', (c) => c.primaryKey().notNull())
    .addColumn('fingerprint', text, (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
}

/** Handles were stored as DID documents declare them; now they must be proven by their names. */
async function askForHandlesAgain(db: Kysely<unknown>): Promise<void> {
  await sql`insert into "handleRequests" ("did", "seq", "attempts", "dueAt")
    select "did", 0, 0, 0 from "handles" where true on conflict ("did") do nothing`.execute(db)
  await sql`delete from "handles"`.execute(db)
}

/** The newest answer to an award is the first row of an index, however often its subject has answered. */
async function orderResponses(db: Kysely<unknown>): Promise<void> {
  for (const column of ['feedTime', 'indexedAt']) {
    await db.schema
      .alterTable('responses')
      .addColumn(column, 'bigint', (c) => c.notNull().defaultTo(0))
      .execute()
  }
  await sql`update "responses" set
    "feedTime" = coalesce((select "feedTime" from "records" where "records"."uri" = "responses"."uri"), 0),
    "indexedAt" = coalesce((select "indexedAt" from "records" where "records"."uri" = "responses"."uri"), 0)`.execute(
    db,
  )
  await db.schema.dropIndex('responsesByAward').execute()
  await db.schema
    .createIndex('responsesByAward')
    .on('responses')
    .columns(['awardUri', 'awardCid', 'did', 'feedTime desc', 'indexedAt desc', 'uri desc'])
    .execute()
}

/** The newest entries of everybody, from which pages of many accounts are read. */
async function orderEntries(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createIndex('entriesByTime')
    .on('entries')
    .columns(['feedTime desc', 'uri desc', 'did', 'kind'])
    .execute()
}

/** Nothing reads these: the address has the record key, and the stream's order tells which record is the newest. */
async function dropUnread(db: Kysely<unknown>): Promise<void> {
  // PostgreSQL drops no column that a view has.
  await db.schema.dropView('visibleRecords').execute()
  for (const column of ['rkey', 'rev']) await db.schema.alterTable('records').dropColumn(column).execute()
  await createVisibleRecords(db)
}

/** The collection records near an activity in time are a range of an index, however many list it. */
async function dateItems(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('collectionItems')
    .addColumn('feedTime', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute()
  await sql`update "collectionItems" set "feedTime" =
    coalesce((select "feedTime" from "records" where "records"."uri" = "collectionItems"."collectionUri"), 0)`.execute(
    db,
  )
  await db.schema.dropIndex('collectionItemsByActivity').execute()
  await db.schema
    .createIndex('collectionItemsByActivity')
    .on('collectionItems')
    .columns(['activityUri', 'activityCid', 'feedTime'])
    .execute()
}

/** Pages of what names one content are ranges of an index, however many name it. */
async function orderPages(db: Kysely<unknown>): Promise<void> {
  await db.schema.dropIndex('awardsByBadge').execute()
  await db.schema.createIndex('awardsByBadge').on('awards').columns(['badgeUri', 'badgeCid', 'uri']).execute()
  await db.schema.dropIndex('collectionItemsByActivity').execute()
  await db.schema
    .createIndex('collectionItemsByActivity')
    .on('collectionItems')
    .columns(['activityUri', 'activityCid', 'feedTime', 'collectionUri'])
    .execute()
}

/** Times of a record stand before its text: 200 records of a megabyte took 200 megabytes to read for their times alone. */
async function putTextLast(db: Kysely<unknown>, { text, readsThroughTexts }: Form): Promise<void> {
  if (!readsThroughTexts) return
  await db.schema.dropView('visibleRecords').execute()
  await db.schema.alterTable('records').renameTo('textBetween').execute()
  await db.schema
    .createTable('records')
    .addColumn('uri', text, (c) => c.primaryKey())
    .addColumn('did', text, (c) => c.notNull())
    .addColumn('collection', text, (c) => c.notNull())
    .addColumn('cid', text, (c) => c.notNull())
    .addColumn('indexedAt', 'bigint', (c) => c.notNull())
    .addColumn('createdAt', 'bigint')
    .addColumn('feedTime', 'bigint', (c) => c.notNull())
    .addColumn('json', text, (c) => c.notNull())
    .execute()
  const columns = sql`"uri", "did", "collection", "cid", "indexedAt", "createdAt", "feedTime", "json"`
  await sql`insert into "records" (${columns}) select ${columns} from "textBetween" order by "uri"`.execute(
    db,
  )
  await db.schema.dropTable('textBetween').execute()
  await createVisibleRecords(db)
}

/** Accounts that wrote again after they were deleted are asked about like others. */
async function checkDeleted(db: Kysely<unknown>): Promise<void> {
  await db.schema.dropIndex('accountsByCheck').execute()
  await sql`create index "accountsByCheck" on "accounts" ("checkedAt") where "isAuthor" = 1`.execute(db)
}

/**
 * Pages begin at the newest rows, among which are those that were removed lately. By default a table is vacuumed when a
 * fifth of it was removed: two million entries of ten.
 */
async function vacuumEarly(db: Kysely<unknown>, { isVacuumed }: Form): Promise<void> {
  if (!isVacuumed) return
  for (const table of ['entries', 'follows', 'endorsements', 'awards', 'records', 'views'])
    await sql`alter table ${sql.table(table)} set
      (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000)`.execute(db)
}

async function createRemakes(db: Kysely<unknown>, { text, clustered }: Form): Promise<void> {
  await db.schema
    .createTable('remakes')
    .addColumn('did', text, (c) => c.primaryKey().notNull())
    .addColumn('seq', 'bigint', (c) => c.notNull())
    .addColumn('place', 'bigint', (c) => c.notNull())
    .addColumn('version', 'bigint', (c) => c.notNull())
    .addColumn('accountVersion', 'bigint', (c) => c.notNull())
    .addColumn('isDefiner', 'bigint', (c) => c.notNull())
    .addColumn('isLister', 'bigint', (c) => c.notNull())
    .addColumn('contents', text, (c) => c.notNull())
    .addColumn('failures', 'bigint', (c) => c.notNull())
    .modifyEnd(clustered)
    .execute()
}

/** The next author is the first row of an index, however many wait, and those who are to be hidden are told apart. */
async function orderRemakes(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('remakes')
    .addColumn('isHiding', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute()
  await sql`update "remakes" set "isHiding" = 1 where "accountVersion" > 0
    and "did" in (select "did" from "accounts" where "hidden" = 1)`.execute(db)
  await db.schema.createIndex('remakesInOrder').on('remakes').columns(['isHiding', 'place']).execute()
}
