/** Runs test files once more with their databases in a real PostgreSQL. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Postgres } from './postgres.ts'

/** Where tests find the database that theirs are to be copies of. Not there: they use what is embedded. */
const templateVariable = 'POSTGRES_TEST_TEMPLATE'

/** True in test files that run on PostgreSQL. */
export const isOnPostgres: boolean = process.env[templateVariable] !== undefined

/**
 * Starts a server, has the tables made that every test begins with, and runs the files. Returns the titles of their tests.
 * @param server used instead of a new one. It stays, with a database more for each test.
 * @throws Error with what the tests printed, if one of them fails.
 */
export async function testOnPostgres(
  makeTables: (url: string) => Promise<void>,
  files: readonly string[],
  server?: Postgres,
): Promise<string[]> {
  if (server === undefined) {
    await using started = await Postgres.start()
    return await testOnPostgres(makeTables, files, started)
  }
  await runOnPostgres(server.urlOf('postgres'), 'create database template_of_tests')
  const template = server.urlOf('template_of_tests')
  await makeTables(template)
  // The runner of these tests would take the inner ones for its own.
  const { NODE_TEST_CONTEXT: _, ...environment } = process.env
  // With the options of this file, which are made for tests.
  const options = [...process.execArgv, '--test', '--test-isolation=none', '--test-reporter=tap']
  const child = spawn(process.execPath, [...options, ...files], {
    env: { ...environment, [templateVariable]: template },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null] // as documented
  if (code !== 0) throw new Error(`on PostgreSQL:\n${printed}`)
  const passed = [...printed.matchAll(/^ *ok \d+ - (.*)$/gm)].map(([, title]) => title ?? '')
  if (passed.length === 0) throw new Error(`no test has run:\n${printed}`)
  return passed
}

/** A new database like the template, or undefined when the tests do not run on PostgreSQL. */
export async function newPostgresDatabase(): Promise<string | undefined> {
  const template = process.env[templateVariable]
  if (template === undefined) return undefined
  const name = `test_${randomBytes(8).toString('hex')}`
  const at = (database: string): string => template.replace('template_of_tests', database)
  await runOnPostgres(at('postgres'), `create database ${name} template template_of_tests strategy file_copy`)
  return at(name)
}

/** Runs one statement, or several without parameters. */
export async function runOnPostgres(url: string, statement: string): Promise<void> {
  const { Client } = await import('pg')
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
