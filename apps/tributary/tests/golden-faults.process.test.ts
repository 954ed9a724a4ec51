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
import { freePort, startProcess } from '@tributary/testkit'
import { serviceEntry } from '../src/service-entry.ts'
import { assertGolden, type Call, described, outcomesOf } from './golden-files.ts'
import { runCli } from './run-cli.ts'
import { StaticStream } from './static-stream.ts'

const did = 'did:plc:abcdefghijklmnopqrstuvwx'
const directory = await mkdtempDisposable(join(tmpdir(), 'golden-faults-'))
const token = join(directory.path, 'token')
await writeFile(token, 'the-operator-token')
after(() => directory.remove())

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
  const outcomes = await outcomesOf(calls, directory.path)
  return calls.map((call, i) => described(call, outcomes[i], directory.path)).join('\n')
}

/** Commands that ask a service at this address. @param output a file for each address. */
function askingAt(url: string, output: string): Call[] {
  const at = ['--url', url]
  const operating = [...at, '--operator-token-file', token]
  const all = [
    ['relay', 'hosts', 'list', ...operating],
    ['relay', 'hosts', 'add', 'pds.example.com', ...operating],
    ['relay', 'state', ...operating, '--json'],
    ['stream', 'jobs', 'list', ...operating],
    ['stream', 'keys', 'create', 'a reader', ...operating],
    ['seal', ...operating],
    ['sources', 'list', ...at],
    ['feed', 'show', did, ...at],
    ['tail', ...at, '--wait', '1'],
    ['tail', ...at, '--wait', '1', '--replay', '--api-key', 'k'.repeat(20)],
    ['backfill', ...at, '--wait', '1'],
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
    'nobody.txt': await textOf(askingAt(`http://127.0.0.1:${await freePort()}`, 'nobody.ndjson')),
    'another-server.txt': await textOf(askingAt(other.url, 'other.ndjson')),
    'no-tls.txt': await textOf(askingAt(other.url.replace('http', 'https'), 'no-tls.ndjson')),
  })
})

test('where a key or token is refused, commands say so as it was looked at', async () => {
  const streamDirectory = join(directory.path, 'stream')
  await using stream = await startProcess(serviceEntry('stream'), {
    env: {
      TRIBUTARY_STREAM_PORT: '0',
      TRIBUTARY_STREAM_DATA_DIRECTORY: streamDirectory,
      TRIBUTARY_STREAM_RELAY_URL: 'ws://127.0.0.1:1',
      TRIBUTARY_STREAM_COLLECTIONS: 'org.impact.collection',
      TRIBUTARY_STREAM_OPERATOR_TOKEN: token,
    },
  })
  const wrong = join(directory.path, 'wrong')
  await writeFile(wrong, 'not-the-operator-token')
  const none = join(directory.path, 'no-token')
  const at = ['--url', stream.url]
  const calls = [wrong, none].flatMap((file) => [
    ['stream', 'jobs', 'list', ...at, '--operator-token-file', file],
    ['stream', 'collections', 'add', 'a.b.c', ...at, '--operator-token-file', file, '--json'],
    ['seal', ...at, '--operator-token-file', file],
    ['backfill', ...at, '--api-key-file', file],
    ['tail', ...at, '--replay', '--api-key-file', file],
    ['verify', '--archive', stream.url, '--api-key-file', file],
  ])
  assertGolden({ 'refused.txt': await textOf(calls.map((args) => ({ args, columns: 80 }))) })
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
