/** Services that answer as no honest one does: every command ends, and nothing of theirs reaches the terminal as a command. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { runCli } from './run-cli.ts'

type Answer = (method: string, request: IncomingMessage) => object | string | Buffer

async function serve(answer: Answer): Promise<AsyncDisposable & { url: string; requests: () => number }> {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    const content = answer(
      request.url?.split(/[./?]/).find((word) => /^(list|get)/.test(word)) ?? '',
      request,
    )
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

test('a list of segments or a feed that never ends is not read for ever', async () => {
  await using archive = await serve(() => ({ segments: [], cursor: 'again' }))
  const verified = await runCli(['verify', '--archive', archive.url])
  assert.deepEqual([verified.code, archive.requests()], [69, 100])
  assert.match(verified.stderr, /lists more than 100000 segments\n$/)
  await using feed = await serve(() => ({ feed: [], cursor: 'again' }))
  const shown = await runCli(['feed', 'show', 'did:plc:abcdefghijklmnopqrstuvwx', '--url', feed.url])
  assert.deepEqual([shown.code, feed.requests()], [0, 1000])
})

test('what a service calls its things is printed without the signs that a terminal obeys', async () => {
  const name = 'seg\u001b[2J\u0007'
  await using archive = await serve((method) =>
    method === 'listSegments' ? { segments: [{ name, ...numbers }] } : 'no segment',
  )
  const verified = await runCli(['verify', '--archive', archive.url])
  assert.equal(verified.code, 1)
  assert.match(verified.stdout, /^DAMAGED seg/m)
  const view = { kind: name, actor: { displayName: name }, content: { title: name } }
  await using feed = await serve(() => ({ feed: [{ subject: name, view }] }))
  const shown = await runCli(['feed', 'show', 'did:plc:abcdefghijklmnopqrstuvwx', '--url', feed.url])
  assert.equal(shown.code, 0, shown.stderr)
  for (const { stdout, stderr } of [verified, shown])
    for (const text of [stdout, stderr])
      assert.equal(/\p{Cc}/u.test(text.replaceAll('\n', '')), false, JSON.stringify(text))
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
    const { code, stderr } = await runCli(args)
    assert.equal(code, 69, stderr)
    assert.match(stderr, /sends more than 16777216 bytes\n$/)
  }
})
