/** Services that answer as no honest one does: every command ends, and nothing of theirs reaches the terminal as a command. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { WebSocketServer } from 'ws'
import { Commands } from './commands.ts'
import { runCli } from './run-cli.ts'
import { StaticStream } from './static-stream.ts'

type Answer = (method: string, request: IncomingMessage) => object | string | Buffer

/** @param status of every answer. */
async function serve(
  answer: Answer,
  status = 200,
): Promise<AsyncDisposable & { url: string; requests: () => number }> {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    const content = answer(
      request.url?.split(/[./?]/).find((word) => /^(list|get)/.test(word)) ?? '',
      request,
    )
    response.statusCode = status
    if (Buffer.isBuffer(content)) response.setHeader('content-encoding', 'gzip')
    response.end(typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // of a port, not of a pipe
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const numbers = { sizeBytes: 5, checksum: '00', eventCount: 1, minSeq: 1, maxSeq: 1 }

const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

const viewer = 'did:plc:abcdefghijklmnopqrstuvwx'

test('a list that never ends, or does not go on, is not read for ever', async () => {
  let at = 0
  let row: object = {}
  await using service = await serve((method) => {
    const rows = method === 'listSegments' ? [{ name: 'a', ...numbers }] : [row]
    const [hosts, segments, feed] = [rows, rows, []]
    return { hosts, segments, feed, cursor: at < 0 ? 'again' : String(++at) }
  })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'hostile-answers-'))
  const token = join(directory.path, 'token')
  writeFileSync(token, 'the-operator-token')
  const { url } = service
  const all: [string[], number][] = [
    [['relay', 'hosts', 'list', '--public', '--url', url, '--limit', '1000000'], 100],
    [['stream', 'coverage', '--url', url], 100],
    [['relay', 'hosts', 'list', '--url', url, '--operator-token-file', token, '--limit', '1000000'], 1000],
    [['feed', 'show', viewer, '--url', url], 1000],
  ]
  row = { hostname: 'pds.example.com', collections: [] }
  for (at of [0, -1])
    for (const [args, requests] of all) {
      const before = service.requests()
      const { code, stdout, stderr } = await commands.run(args)
      assert.deepEqual([code, stdout], [69, ''], stderr)
      assert.equal(service.requests() - before, at < 0 ? 2 : requests, args.join(' '))
      assert.match(stderr, /(more than 1000? pages|does not go on)/)
    }
  const verified = await commands.run(['verify', '--archive', url])
  assert.equal(verified.code, 69)
  assert.match(verified.stderr, /a list of segments that does not go on/)
})

test('an answer of another form is said to be none of a service', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'hostile-answers-'))
  const token = join(directory.path, 'token')
  writeFileSync(token, 'the-operator-token')
  let answer: string = ''
  await using service = await serve(() => answer)
  const operating = ['--operator-token-file', token, '--url', service.url]
  const all: [string[], unknown[]][] = [
    [
      ['relay', 'hosts', 'list', '--public', '--url', service.url],
      [{ hosts: [null] }, { hosts: [{}] }, { hosts: 5 }, null, []],
    ],
    [
      ['verify', '--archive', service.url],
      [{ segments: [null] }, { segments: [{}] }, null],
    ],
    [
      ['seal', ...operating],
      [null, 5, [], { sealedSeq: 'x' }, { sealedSeq: 1, segment: null }],
    ],
    [
      ['feed', 'show', viewer, '--url', service.url],
      [{ feed: [null] }, { feed: [{}] }, { feed: [{ subject: 'a', view: {} }] }],
    ],
    [
      ['relay', 'hosts', 'list', ...operating],
      [{ hosts: [null] }, { hosts: {} }, null],
    ],
    [
      ['relay', 'hosts', 'show', 'pds.example.com', ...operating],
      [{ hosts: [null] }, { hosts: 5 }],
    ],
    [
      ['relay', 'hosts', 'pause', 'pds.example.com', ...operating],
      [null, { hosts: [{ budgets: [null] }] }],
    ],
    [
      ['stream', 'coverage', '--url', service.url],
      [{ hosts: [{ hostname: 'a' }] }, { hosts: [{ hostname: 'a', collections: [null] }] }],
    ],
    [['stream', 'keys', 'list', ...operating], [{ keys: [5] }]],
    [
      ['stream', 'jobs', 'start', ...operating],
      [{}, { jobs: [null] }],
    ],
  ]
  for (const [args, answers] of all)
    for (const each of answers) {
      answer = JSON.stringify(each)
      const { code, stdout, stderr } = await commands.run(args)
      assert.deepEqual([code, stdout], [69, ''], `${args.join(' ')} ${answer}: ${stderr}`)
      assert.match(stderr, /is it the service's address\?\n$/)
    }
})

test('what a service calls its things is printed without the signs that a terminal obeys', async () => {
  const name = 'seg\u001b[2J\u0007'
  await using archive = await serve((method) =>
    method === 'listSegments' ? { segments: [{ name, ...numbers }] } : 'no segment',
  )
  const verified = await commands.run(['verify', '--archive', archive.url])
  assert.equal(verified.code, 1)
  assert.match(verified.stdout, /^DAMAGED seg/m)
  const view = { kind: name, actor: { displayName: name }, content: { title: name } }
  await using feed = await serve(() => ({ feed: [{ subject: name, view }] }))
  const shown = await commands.run(['feed', 'show', viewer, '--url', feed.url])
  assert.equal(shown.code, 0, shown.stderr)
  for (const { stdout, stderr } of [verified, shown])
    for (const text of [stdout, stderr])
      assert.equal(/\p{Cc}/u.test(text.replaceAll('\n', '')), false, JSON.stringify(text))
})

test('what a service says of an error, or as a notice, is one line that the terminal does not obey', async () => {
  const words = '\u001b]0;title\u0007\u001b[2J\u202e\u2028\u009b'
  await using directory = await mkdtempDisposable(join(tmpdir(), 'hostile-answers-'))
  const token = join(directory.path, 'token')
  writeFileSync(token, 'the-operator-token')
  await using refusing = await serve(() => ({ error: 'Bad', message: words }), 400)
  await using stream = await StaticStream.start(1, { name: words, message: 'x'.repeat(4_000_000) })
  const relay = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  relay.on('connection', (socket) => socket.close(4000, words))
  await once(relay, 'listening')
  const { port } = relay.address() as AddressInfo // of a port, not of a pipe
  const { url } = refusing
  const all = [
    ['seal', '--operator-token-file', token, '--url', url],
    ['relay', 'hosts', 'list', '--operator-token-file', token, '--url', url],
    ['feed', 'show', viewer, '--url', url],
    ['backfill', '--url', url, '--api-key', 'k', '--wait', '1'],
    ['verify', '--archive', url],
    ['verify', '--live', `http://127.0.0.1:${port}`, '--for', '30'],
    ['tail', '--url', stream.url, '--cursor', '0', '--limit', '1'],
  ]
  for (const args of all) {
    const { stderr } = await commands.run(args)
    assert.match(stderr, /\[2J/, args.join(' '))
    assert.doesNotMatch(stderr.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\u2028]/u, args.join(' '))
    assert.ok(
      stderr.split('\n').every((line) => line.length <= 500),
      args.join(' '),
    )
  }
  relay.close()
})

test('an answer that is nested deep is no answer of a service', async () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  await using service = await serve(() => `{"hosts":[{"hostname":"pds.example.com","status":${deep}}]}`)
  for (const form of [['--json'], []]) {
    const args = ['relay', 'hosts', 'list', '--public', '--url', service.url, ...form]
    const { code, stdout, stderr } = await commands.run(args)
    assert.deepEqual([code, stdout], [69, ''], stderr)
    assert.match(stderr, /^tributary relay hosts list: [^\n]* is it the service's address\?\n$/)
  }
})

test('an answer that grows without an end is not held in memory', async () => {
  const spaces = gzipSync(Buffer.alloc(64 * 1024 * 1024, 0x20))
  await using service = await serve(() =>
    Buffer.concat([gzipSync('{"hosts":[],"segments":[],"x":"'), spaces]),
  )
  for (const args of [
    ['relay', 'hosts', 'list', '--public', '--url', service.url],
    ['verify', '--archive', service.url],
  ]) {
    const { code, stderr } = await commands.run(args)
    assert.equal(code, 69, stderr)
    assert.match(stderr, /sends more than 16777216 bytes\n$/)
  }
})

test('a table that is larger than a pipe is printed to its end', async () => {
  const hosts = Array.from({ length: 100_000 }, (_, i) => ({ hostname: `pds-${i}.example.com` }))
  await using service = await serve(() => ({ hosts }))
  const all = ['relay', 'hosts', 'list', '--public', '--limit', '1000000', '--url', service.url]
  for (const args of [all, [...all, '--json']]) {
    const { code, stdout, stderr } = await runCli(args)
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(stdout.match(/pds-\d+\.example\.com/g)?.length, 100_000)
  }
})

test('status says of a service that answers with something else that it is not well', async () => {
  let answer = ''
  await using service = await serve(() => answer)
  await using directory = await mkdtempDisposable(join(tmpdir(), 'hostile-answers-'))
  const services = ['relay', 'stream'].map((name) => ({ name, url: service.url }))
  writeFileSync(join(directory.path, 'running.json'), JSON.stringify({ pid: process.pid, services }))
  const all = [null, 5, [], {}, { relay: null, stream: 5, reasons: 5 }, { relay: {}, reasons: [null] }]
  for (const each of all) {
    answer = JSON.stringify(each)
    const { code, stdout, stderr } = await commands.run(['status', '--data-directory', directory.path])
    assert.deepEqual([code, stderr], [1, ''], answer)
    assert.match(stdout, /^relay: /m)
    assert.doesNotMatch(stdout, /undefined|is not a function/)
  }
})
