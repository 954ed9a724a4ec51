import pg from 'pg'

const int8 = 20

/** Integers come back as bigint, as from SQLite. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? BigInt : pg.types.getTypeParser(oid, format),
}

/** Time to connect; a server that does not answer is away. */
const connectMs = 10_000

/** @param schema where tables are looked for and made; that of the connection unless given */
export function clientOptions(url: string, applicationName: string, schema?: string): pg.ClientConfig {
  return {
    ...(schema !== undefined && { options: `-c search_path=${schema}` }),
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    types,
  }
}
