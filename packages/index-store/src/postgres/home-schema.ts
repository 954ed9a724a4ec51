/**
 * The schema in which an index is at home: there are the tables of its first generation, and its policies for as long as it
 * lives. Every other generation has a schema of its own beside it.
 */
import pg from 'pg'
import { IndexStorageError } from '../storage-error.ts'
import { clientOptions } from './client-options.ts'
import { onPostgres } from './storage-fault.ts'

export interface HomeSchema {
  readonly name: string
  /** The same as long as it is there. */
  readonly id: number
  /** The roles that may read the policies, which every feed reads, as SQL names them. */
  readonly readers: readonly string[]
}

/** Encodings that hold every text. */
const encodings: ReadonlySet<string> = new Set(['UTF8', 'SQL_ASCII'])

const look = `
  with policies as (select oid, relnamespace, relowner, relacl from pg_class where oid = to_regclass('"policies"'))
  select home.nspname as "name", (home.oid::bigint % 2147483647)::int as "id",
    current_setting('server_encoding') as "encoding",
    array(select case when granted.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(granted.grantee)) end
      from policies, aclexplode(policies.relacl) as granted
      where granted.privilege_type = 'SELECT' and granted.grantee <> policies.relowner) as "readers"
  from pg_namespace as home
  where home.oid = (select relnamespace from policies)
    or (home.nspname = current_schema() and not exists (select 1 from policies))`

/** @throws IndexStorageError when the database does not fit an index. */
export async function findHome(url: string): Promise<HomeSchema> {
  const client = new pg.Client(clientOptions(url, 'tributary index'))
  client.on('error', () => undefined)
  try {
    await onPostgres(client.connect())
    const { rows } = await onPostgres(client.query<HomeSchema & { readonly encoding: string }>(look))
    const [home] = rows
    if (home === undefined)
      throw new IndexStorageError('the search path of the database names no schema that is there')
    if (!encodings.has(home.encoding))
      throw new IndexStorageError(
        `the database has the encoding ${home.encoding}, which cannot hold every text: make one with UTF8`,
      )
    return home
  } finally {
    await client.end()
  }
}
