/**
 * What commands print when the service is not there, is another one or refuses the key, when they read into a pipe and on a
 * terminal, and when nobody reads what they print.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { EventLog } from '@tributary/event-log'
import { openIndexWriter } from '@tributary/index-store'
import { freePort, startProcess } from '@tributary/testkit'
import { createProgram } from '../src/program.ts'
import { serviceEntry } from '../src/service-entry.ts'
import { everyCommand, nameOf } from './every-command.ts'
import { type Call, Commands } from './commands.ts'
import { assertGolden, described, outcomesOf } from './golden-files.ts'
import { runCli } from './run-cli.ts'
import { StaticStream } from './static-stream.ts'

const did = 'did:plc:abcdefghijklmnopqrstuvwx'
const directory = await mkdtempDisposable(join(tmpdir(), 'golden-faults-'))
const token = join(directory.path, 'token')
await writeFile(token, 'the-operator-token')
const commands = new Commands(directory.path)
after(async () => {
  await commands[Symbol.asyncDispose]()
  await directory.remove()
})

/** Something that is no service of ours. */
async function startOther(): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((_, response) => {
    response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not here</h1>')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // of a port, not of a pipe
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function textOf(calls: readonly Call[]): Promise<string> {
  const outcomes = await outcomesOf(calls, commands)
  return calls.map((call, i) => described(call, outcomes[i], directory.path)).join('\n')
}

/** What is typed for the arguments of commands, by their names. */
const typed: Readonly<Record<string, string>> = {
  hostname: 'pds.example.com',
  domain: 'bad.example',
  did,
  viewer: did,
  id: '7',
  collection: 'org.impact.collection',
  owner: 'a reader',
  name: 'one',
}

/** Every command that asks a service at this address, with all that it must be given. */
function askingAt(url: string): string[][] {
  return everyCommand(createProgram())
    .filter(({ options }) => options.some(({ long }) => long === '--url'))
    .map((command) => [
      ...nameOf(command).split(' ').slice(1),
      ...command.registeredArguments.map(
        (argument) => ({ ...typed, relay: url })[argument.name()] ?? assert.fail(argument.name()),
      ),
      ...(command.name() === 'restart' ? ['--position', 'oldest'] : []),
      ...(command.options.some(({ long }) => long === '--wait') ? ['--wait', '1'] : []),
      '--url',
      url,
      ...(command.options.some(({ long }) => long === '--operator-token-file')
        ? ['--operator-token-file', token]
        : []),
    ])
}

/** They, and other ways of asking. @param output a file for each address. */
function callsAt(url: string, output: string): Call[] {
  const at = ['--url', url]
  const all = [
    ...askingAt(url),
    ['relay', 'state', ...at, '--operator-token-file', token, '--json'],
    ['relay', 'hosts', 'list', ...at, '--public'],
    ['tail', ...at, '--wait', '1', '--replay', '--api-key', 'k'.repeat(20)],
    ['backfill', ...at, '--wait', '1', '--json', '--output', join(directory.path, output)],
    ['verify', '--live', url, '--count', '1'],
    ['verify', '--archive', url],
    ['verify', '--repo', did, '--plc', url],
  ]
  return all.map((args) => ({ args, columns: 80 }))
}

test('where no service is, and where another one is, commands say so as it was looked at', async () => {
  await using other = await startOther()
  assertGolden({
    'nobody.txt': await textOf(callsAt(`http://127.0.0.1:${await freePort()}`, 'nobody.ndjson')),
    'another-server.txt': await textOf(callsAt(other.url, 'other.ndjson')),
    'no-tls.txt': await textOf(callsAt(other.url.replace('http', 'https'), 'no-tls.ndjson')),
  })
})

test('where a key or token is refused, commands say so as it was looked at', async () => {
  const start = async (name: 'relay' | 'stream' | 'feed', settings: Record<string, string>) => {
    const entries = Object.entries({ PORT: '0', ...settings })
    const env = entries.map(([key, value]) => [`TRIBUTARY_${name.toUpperCase()}_${key}`, value])
    return await startProcess(serviceEntry(name), { env: Object.fromEntries(env) as Record<string, string> }) // of texts
  }
  const right = join(directory.path, 'right')
  await writeFile(right, 'another-operator-token')
  const index = join(directory.path, 'index.sqlite')
  await (await openIndexWriter(index))[Symbol.asyncDispose]()
  const own = { OPERATOR_TOKEN: right }
  await using relay = await start('relay', {
    ...own,
    DATA_DIRECTORY: join(directory.path, 'relay'),
    PLC_URL: 'http://127.0.0.1:1',
  })
  await using stream = await start('stream', {
    ...own,
    DATA_DIRECTORY: join(directory.path, 'stream'),
    RELAY_URL: 'ws://127.0.0.1:1',
    COLLECTIONS: 'org.impact.collection',
  })
  await using feed = await start('feed', { DATABASE_PATH: index, SERVICE_DID: 'did:web:feed.example' })
  const none = join(directory.path, 'no-token')
  const torn = join(directory.path, 'two-words')
  await writeFile(torn, 'no token')
  const ofOperators = (name: 'relay' | 'stream', { url }: { url: string }): string[][] =>
    askingAt(url).filter((args) => args[0] === name && args.includes('--operator-token-file'))
  const at = ['--url', stream.url]
  const withKey = (file: string): string[][] => [
    ['backfill', ...at, '--api-key-file', file],
    ['tail', ...at, '--replay', '--api-key-file', file],
    ['verify', '--archive', stream.url, '--api-key-file', file],
    ['feed', 'show', did, '--url', feed.url, '--token-file', file],
  ]
  const calls = [
    ...ofOperators('relay', relay),
    ...ofOperators('stream', stream),
    ['seal', ...at, '--operator-token-file', token],
    ['stream', 'collections', 'add', 'a.b.c', ...at, '--operator-token-file', token, '--json'],
    ...withKey(token),
    ...[none, torn].flatMap((file) => [
      ['stream', 'jobs', 'list', ...at, '--operator-token-file', file],
      ['seal', ...at, '--operator-token-file', file],
      ...withKey(file),
    ]),
  ]
  assertGolden({ 'refused.txt': await textOf(calls.map((args) => ({ args, columns: 80 }))) })
})

/** Programs of their own, because services inherit the output and `init` reads what is typed. */
test('services and settings that need attention say so as it was looked at', async () => {
  const all = [
    ...['up', 'demo', 'relay', 'stream', 'index', 'feed'].flatMap((name) => [
      [name, '--no-such-setting'],
      [name, '--log-level', 'loud'],
    ]),
    ['up', '--sources', 'not a host'],
    ['relay', 'hots'],
    ['init'],
    ['init', '--json'],
    ['help', 'relay', 'hosts', 'pause'],
    ['schema', '--no-such-option'],
    ['completion', 'ksh'],
  ]
  const texts = await Promise.all(
    all.map(async (args) => {
      const { code, stdout, stderr } = await runCli(args, { directory: directory.path })
      return described({ args }, { code: Number(code), stdout, stderr }, directory.path)
    }),
  )
  assertGolden({ 'settings.txt': texts.join('\n') })
})

test('the schema and the scripts of shells are as they were looked at', async () => {
  const all = [['schema'], ['completion', 'bash'], ['completion', 'zsh'], ['completion', 'fish']]
  for (const args of all) assertGolden({ [`${args.join('-')}.txt`]: await textOf([{ args, columns: 80 }]) })
})

test('events are lines to read on a terminal and JSON in a pipe, as it was looked at', async () => {
  await using stream = await StaticStream.start(3)
  const at = ['--url', stream.url]
  const all = [
    ['tail', ...at, '--cursor', '0', '--limit', '3'],
    ['tail', ...at, '--cursor', '0', '--limit', '2', '--quiet', '--json'],
    ['backfill', ...at],
  ]
  const texts: Record<string, string> = {}
  for (const columns of [80, 200, undefined]) {
    const calls = all.map((args): Call => ({ args, ...(columns !== undefined && { columns }) }))
    texts[`events-${columns ?? 'piped'}.txt`] = await textOf(calls)
  }
  assertGolden(texts)
})

test('a terminal that does not know its width has one that is usual', async () => {
  await using stream = await StaticStream.start(3)
  const all = [
    { args: ['--help'], usual: 80 },
    { args: ['up', '--help'], usual: 80 },
    { args: ['tail', '--url', stream.url, '--cursor', '0', '--limit', '3'], usual: 100 },
    { args: ['relay', 'log', 'verify', '--data-directory', await relayFiles()], usual: 100 },
  ]
  for (const { args, usual } of all) {
    const [unknown, known] = await outcomesOf(
      [0, usual].map((columns) => ({ args, columns })),
      commands,
    )
    assert.deepEqual(unknown, known, args.join(' '))
  }
})

/** A data directory of a relay with an empty log. */
async function relayFiles(): Promise<string> {
  const path = join(directory.path, 'relay-files')
  await (await EventLog.open({ directory: join(path, 'log') })).close()
  return path
}

test('a command whose output nobody reads ends well, and says nothing of it', async () => {
  await using stream = await StaticStream.start(2000)
  const all = [
    ['--help'],
    ['schema'],
    ['completion', 'bash'],
    ['tail', '--url', stream.url, '--cursor', '0', '--quiet'],
    ['backfill', '--url', stream.url],
    ['verify', '--help'],
  ]
  for (const args of all) {
    const { code, stderr } = await runCli(args, { isRead: false })
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
    assert.doesNotMatch(stderr, /EPIPE| at /, args.join(' '))
  }
})
