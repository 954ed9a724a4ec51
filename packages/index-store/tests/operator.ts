/** What an operator does in a PostgreSQL server of the tests. */
import type { Postgres } from '@tributary/testkit'
import pg from 'pg'

export async function connectAs(server: Postgres, database: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.urlOf(database) })
  await client.connect()
  return client
}

/** @returns the URL of the new database. */
export async function createDatabase(server: Postgres, name: string, how = ''): Promise<string> {
  const client = await connectAs(server, 'postgres')
  await client.query(`create database ${name} ${how}`)
  await client.end()
  return server.urlOf(name)
}
