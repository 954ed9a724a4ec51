/** Databases as an earlier version has left them. */
import { type Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { migrationsOf } from '../src/migrations.ts'
import type { RowOf } from '../src/tables.ts'
import { did } from './filled-index.ts'

/** A record of the earlier database, as it must be after the migration. */
export const earlierRecord: RowOf<'records'> = {
  uri: `at://${did(1)}/org.impact.claim.activity/one`,
  did: did(1),
  collection: 'org.impact.claim.activity',
  cid: 'bafy',
  json: '{"title":"one"}',
  indexedAt: 1n,
  createdAt: null,
  feedTime: 253_402_300_799_999_999n,
}

/** Makes the tables of the version that stored the record key and the revision of records, and the record above. */
export async function makeEarlier(db: Kysely<unknown>, database: 'sqlite' | 'postgres'): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrationsOf(database) } })
  const { error } = await migrator.migrateTo('0010-newest-entries')
  if (error !== undefined) throw new Error('the earlier tables could not be made', { cause: error })
  const row = { ...earlierRecord, rkey: 'one', rev: '3l' }
  const columns = sql.join(Object.keys(row).map((name) => sql.ref(name)))
  await sql`insert into "records" (${columns}) values (${sql.join(Object.values(row))})`.execute(db)
}
