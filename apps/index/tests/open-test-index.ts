import { type IndexWriter, openIndexWriter } from '@tributary/index-store'
import { newPostgresDatabase } from '@tributary/testkit'

/** A new index database: in memory, or in PostgreSQL when the tests run on it. */
export async function openTestIndex(): Promise<IndexWriter> {
  return openIndexWriter((await newPostgresDatabase()) ?? ':memory:')
}
