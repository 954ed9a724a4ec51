import pg from 'pg'

const int8 = 20

/** Integers come back as bigint, as from SQLite. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? BigInt : pg.types.getTypeParser(oid, format),
}

/** A connection without traffic for so long is asked whether its server is there; the system asks after two hours. */
const keepAliveMs = 10_000

/** Time to connect; a server that does not answer is away. */
const connectMs = 10_000

/** @param schema where tables are looked for and made; that of the connection unless given */
export function clientOptions(url: string, applicationName: string, schema?: string): pg.ClientConfig {
  return {
    connectionString: schema === undefined ? url : inSchema(url, schema),
    application_name: applicationName,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
    types,
  }
}

/** The URL may set options of its own, and a search path among them. Of two the last one counts. */
function inSchema(url: string, schema: string): string {
  const [place = '', query = ''] = url.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  const options = parameters.get('options') ?? ''
  parameters.set('options', `${options} -c search_path=${schema}`.trim())
  return `${place}?${parameters.toString()}`
}
