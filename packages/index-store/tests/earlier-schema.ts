/** Databases as an earlier version has left them. */
import { type Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { migrationsOf } from '../src/migrations.ts'
import type { RowOf } from '../src/tables.ts'
import { did } from './filled-index.ts'

/** A record of the earlier database, as it must be after the migration. */
export const earlierRecord: RowOf<'records'> = {
  uri: `at://${did(1)}/org.impact.collection/one`,
  did: did(1),
  collection: 'org.impact.collection',
  cid: 'bafy',
  json: '{"title":"one"}',
  indexedAt: 1n,
  createdAt: null,
  feedTime: 253_402_300_799_999_999n,
}

/** An item of it, likewise. */
export const earlierItem: RowOf<'collectionItems'> = {
  collectionUri: earlierRecord.uri,
  activityUri: `at://${did(1)}/org.impact.claim.activity/two`,
  activityCid: 'bafy',
  feedTime: earlierRecord.feedTime,
}

/** Makes the tables of the version whose last step this was. */
export async function migrateTo(
  db: Kysely<unknown>,
  database: 'sqlite' | 'postgres',
  step: string,
): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrationsOf(database) } })
  const { error } = await migrator.migrateTo(step)
  if (error !== undefined) throw new Error('the earlier tables could not be made', { cause: error })
}

/** Makes the tables of the version that stored the record key and the revision of records, and the rows above. */
export async function makeEarlier(db: Kysely<unknown>, database: 'sqlite' | 'postgres'): Promise<void> {
  await migrateTo(db, database, '0010-newest-entries')
  const put = async (table: string, row: object): Promise<void> => {
    const columns = sql.join(Object.keys(row).map((name) => sql.ref(name)))
    const values = sql.join(Object.values(row))
    await sql`insert into ${sql.table(table)} (${columns}) values (${values})`.execute(db)
  }
  await put('records', { ...earlierRecord, rkey: 'one', rev: '3l' })
  const { feedTime: _, ...item } = earlierItem
  await put('collectionItems', item)
}
