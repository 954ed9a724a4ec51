import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { HostRequests, OversizeError } from './host-requests.ts'

test('an error of many bytes is read as one without a text, however many bytes the answer may have', async (t) => {
  const server = createServer((request, response) => {
    const status = Number(request.url?.split('.').at(-1))
    response.writeHead(status).end(' '.repeat(1_000_000) + '{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo // it listens on TCP
  const host = `127.0.0.1:${port}`
  const requests = new HostRequests({
    allowedPrivateHosts: [host],
    paceOf: () => 1000,
    signal: new AbortController().signal,
  })
  let taken = 0
  const take = (piece: Buffer): void => void (taken += piece.length)
  const ask = (method: string, bytesMax: number) =>
    requests.ask(`http://${host}`, method, { bytesMax, timeoutMs: 10_000, take })
  const { status, body } = await ask('400', 10_000_000)
  assert.deepEqual([status, body.length, taken], [400, 0, 0])
  await ask('200', 10_000_000)
  assert.equal(taken, 1_000_002)
  await assert.rejects(ask('200', 100_000), OversizeError)
})
