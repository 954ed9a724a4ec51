/** Outputs that are full, servers that are others, cursors of another stream: each ends a command with a sentence and a code. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Commands } from './commands.ts'
import { runCli } from './run-cli.ts'
import { StaticStream } from './static-stream.ts'

const fullDevice = '/dev/full'
const did = 'did:plc:abcdefghijklmnopqrstuvwx'
const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

const noDevice = existsSync(fullDevice) ? false : 'this system has no /dev/full'

test('a command whose output is full says so and ends with 74', { skip: noDevice }, async () => {
  await using stream = await StaticStream.start(50)
  const all = [
    ['--help'],
    ['schema'],
    ['completion', 'bash'],
    ['relay', 'hosts', '--help'],
    ['up', '--help'],
    ['backfill', '--url', stream.url],
    ['tail', '--url', stream.url, '--cursor', '0', '--limit', '3'],
  ]
  for (const args of all) {
    const { code, stderr: said } = await runCli(args, { output: fullDevice })
    assert.deepEqual([code, /the disk is full/.test(said)], [74, true], `${args.join(' ')}: ${said}`)
    assert.doesNotMatch(said, /ENOSPC|\n {4}at /)
  }
})

test('a server that answers with JSON of another kind is no service', async () => {
  let status = 200
  const server = createServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(status === 200 ? '{}' : '{"error":"MethodNotImplemented","message":"not here"}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  await using directory = await mkdtempDisposable(join(tmpdir(), 'bad-places-'))
  const token = join(directory.path, 'token')
  writeFileSync(token, 'the-operator-token')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on TCP
    const operating = ['--url', url, '--operator-token-file', token]
    const all = [
      ['relay', 'hosts', 'list', ...operating],
      ['relay', 'hosts', 'pause', 'pds.example.com', ...operating],
      ['relay', 'consumers', 'list', ...operating],
      ['relay', 'limits', 'show', ...operating],
      ['relay', 'state', ...operating],
      ['stream', 'keys', 'create', 'a reader', ...operating],
      ['stream', 'compaction', ...operating],
      ['stream', 'coverage', ...operating],
      ['stream', 'collections', 'list', ...operating],
      ['relay', 'hosts', 'list', '--public', '--url', url],
      ['feed', 'show', did, '--url', url],
      ['backfill', '--url', url, '--wait', '1'],
      ['verify', '--archive', url],
    ]
    for (status of [200, 501])
      for (const args of all) {
        const { code, stdout, stderr } = await commands.run(args)
        assert.deepEqual([code, stdout], [69, ''], `${status}: ${args.join(' ')}: ${stderr}`)
        assert.doesNotMatch(stderr, /undefined|iterable|\n {4}at /)
      }
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

test('what is secret is shown nowhere, also where it is none', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'bad-places-'))
  const file = join(directory.path, 'a-file')
  writeFileSync(file, 'not a token\nbut somebody’s secret\n')
  const nobody = ['--url', 'http://127.0.0.1:1']
  const named = ['--url', 'http://somebody:secret@127.0.0.1:1']
  const all: [number, string[]][] = [
    [74, ['relay', 'hosts', 'list', ...nobody, '--operator-token-file', file]],
    [74, ['relay', 'hosts', 'list', ...nobody, '--operator-token-file', directory.path]],
    [74, ['stream', 'keys', 'list', ...nobody, '--operator-token-file', file]],
    [74, ['feed', 'show', did, ...nobody, '--token-file', file]],
    [74, ['tail', '--replay', ...nobody, '--api-key-file', file]],
    [74, ['verify', '--archive', 'http://127.0.0.1:1', '--api-key-file', file]],
    [64, ['tail', ...named, '--wait', '1']],
    [64, ['backfill', ...named, '--wait', '1']],
    [64, ['relay', 'hosts', 'list', '--public', ...named]],
    [64, ['feed', 'show', did, ...named]],
    [64, ['verify', '--archive', 'http://somebody:secret@127.0.0.1:1']],
  ]
  for (const [expected, args] of all) {
    const { code, stdout, stderr } = await commands.run(args)
    assert.deepEqual([code, stdout], [expected, ''], `${args.join(' ')}: ${stderr}`)
    assert.doesNotMatch(stderr, /secret/, args.join(' '))
    if (expected === 74)
      assert.ok(stderr.includes(directory.path), `${args.join(' ')} names the file: ${stderr}`)
  }
})

test('a backfill from a cursor that no stream of these has reached is refused', async () => {
  await using stream = await StaticStream.start(20)
  const { code, stdout, stderr } = await commands.run(['backfill', '--url', stream.url, '--after-seq', '999'])
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(stderr, /head of this stream is seq 20, .* after 999: is it another stream/)
})

test('what is typed twice, is empty, or names nothing, is refused', async () => {
  const all = [
    ['tail', '--cursor', '1', '--cursor', '2'],
    ['backfill', '--url', 'http://127.0.0.1:1', '--url', 'http://127.0.0.1:2'],
    ['tail', '--url', 'http://127.0.0.1:1', '--cursor-file', ''],
    ['backfill', '--url', 'http://127.0.0.1:1', '--output', ''],
    ['status', '--data-directory', ''],
    ['relay', 'refusals', '--url', 'http://127.0.0.1:1', '--hostname', ''],
    ['init', '--output='],
    ['help', 'nothing'],
    ['help', 'tail', 'extra'],
    ['status', '--settings', '/no/such/file.json'],
    ['feed', 'show', did, '--limit', '0'],
  ]
  for (const args of all) {
    const { code, stdout, stderr } = await commands.run(args)
    assert.deepEqual([code, stdout], [64, ''], `${args.join(' ')}: ${stderr}`)
    assert.match(stderr, /^error: /)
  }
})
