/** Whatever a server does, every event comes once and in order, and what went wrong is told. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { decodeFrame } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { createClient } from '../src/client.ts'
import { createStreamClient, type StreamStatus } from '../src/node.ts'
import { openNodeSocket } from '../src/node-socket.ts'
import type { Runtime } from '../src/runtime.ts'
import { openStandardSocket } from '../src/socket.ts'
import { answerError, rows, StreamServer } from './stream-server.ts'

const platforms = {
  Node: { openSocket: openNodeSocket, failuresHaveCause: true, showsRefusals: true },
  browsers: { openSocket: openStandardSocket, failuresHaveCause: false, showsRefusals: false },
} as const
/** Archive to 60, the rest is live. */
const last = 80

type Take = (response: ServerResponse, count: number) => boolean

/** Lets `take` have the requests of a method; it is told how many came before. */
function interceptEach(server: StreamServer, method: string, take: Take): void {
  let count = 0
  server.intercept = (called, _request, response) => called === method && take(response, count++)
}

function halfOf(server: StreamServer): Uint8Array {
  const { bytes } = server.segment(0)
  return bytes.subarray(0, bytes.length / 2)
}

interface Fault {
  name: string
  plan: (server: StreamServer) => void
  /** What must be told of it. */
  told: RegExp
}

const failing = (name: string, method: string, status: number, error: string): Fault => ({
  name,
  plan: (server) =>
    interceptEach(server, method, (response, count) => {
      if (count > 1) return false
      if (status === 429) response.setHeader('retry-after', '0.002')
      answerError(response, status, error)
      return true
    }),
  told: new RegExp(`archive-failed .*${status}`),
})

const faults: Fault[] = [
  failing('a plan that fails', 'planSnapshot', 500, 'InternalServerError'),
  failing('a download that fails', 'getSegment', 500, 'InternalServerError'),
  failing('a server that is asked too often', 'getSegment', 429, 'RateLimitExceeded'),
  failing('a segment that is gone since the plan', 'getSegment', 404, 'SegmentNotFound'),
  {
    name: 'a server that is killed during a download, and is away for a while',
    plan: (server) => {
      let left = 5
      server.intercept = (method, _request, response) => {
        if (left === 5 && method !== 'getSegment') return false
        if (left-- <= 0) return false
        if (left === 4) response.writeHead(200).write(halfOf(server), () => response.destroy())
        else response.destroy()
        return true
      }
    },
    told: /archive-failed/,
  },
  {
    name: 'a download that stalls',
    plan: (server) =>
      interceptEach(server, 'getSegment', (response, count) => {
        if (count === 0) response.writeHead(200).write(halfOf(server))
        return count === 0
      }),
    told: /archive-failed .*nothing for/,
  },
  {
    name: 'a segment that is truncated',
    plan: (server) =>
      interceptEach(server, 'getSegment', (response, count) => {
        if (count === 0) response.writeHead(200).end(halfOf(server))
        return count === 0
      }),
    told: /archive-failed .*ended early/,
  },
  {
    name: 'a block with a wrong checksum',
    plan: (server) =>
      interceptEach(server, 'getSegment', (response, count) => {
        if (count > 0) return false
        const spoilt = Buffer.from(server.segment(0).bytes)
        spoilt.fill(0, 256 + 8 + 12, 256 + 8 + 20)
        response.writeHead(200).end(spoilt)
        return true
      }),
    told: /archive-failed block 0 of .* does not decode/,
  },
  {
    name: 'a segment that is compacted between its plan and its download',
    plan: (server) =>
      interceptEach(server, 'getSegment', (response, count) => {
        if (count !== 1) return false
        void server
          .rewrite(0, rows(1, 20), rows(21, 40))
          .then(() => answerError(response, 416, 'RangeNotSatisfiable'))
        return true
      }),
    told: /archive-failed .*rewritten/,
  },
  {
    name: 'a look-back that slips twice while the archive is read slowly',
    plan: (server) => {
      // Each plan ends where the archive ended then, and all of it has left the look-back when it was read.
      const tips = [60, 70, last]
      server.refuse = (query) =>
        Number(query.get('cursor')) < last ? { status: 400, error: 'CursorTooOld' } : undefined
      interceptEach(server, 'planSnapshot', (response, count) => {
        const tip = tips[count] ?? last
        const names = count === 0 ? [0, 1] : [count + 1]
        const segments = names.map((at) => ({ name: server.segment(at).name, mode: 'segment' }))
        response.end(JSON.stringify({ plannedThroughSeq: tip, sealedTipSeq: tip, segments }))
        return true
      })
    },
    told: /refilling(.*)refilling/s,
  },
  {
    name: 'live connections that end: refused, cut within a frame, without a word, and silent',
    plan: (server) => {
      let count = 0
      server.refuse = () => (count++ % 5 === 0 && count < 12 ? { status: 500, error: 'Internal' } : undefined)
      server.onSubscriber = (socket, query, connection) => {
        switch (count) {
          case 2:
            // A frame of 256 bytes that ends after 3.
            return void connection.end(Buffer.from([0x81, 126, 1, 0, 0x7b, 0x22, 0x24]))
          case 3:
            return socket.terminate()
          case 4:
            return socket.close(1001, 'going away')
          case 5:
            return socket.pause()
          default:
            server.replay(socket, query.get('cursor'))
        }
      }
    },
    told: /(connect-failed|closed) .*(closed .*){2}idle/s,
  },
]

for (const [platform, sockets] of Object.entries(platforms)) {
  const runtime: Runtime = {
    ...sockets,
    decode: (frame) => decodeFrame(frame, nodeDecompress),
    sha256: (bytes) => createHash('sha256').update(bytes).digest(),
    stallMs: 500,
    idleLimitMs: 40,
  }
  for (const { name, plan, told } of faults) {
    test(`in ${platform} every event comes once and in order despite ${name}`, async () => {
      await using server = await StreamServer.start()
      await server.seal(rows(1, 20), rows(21, 40))
      await server.seal(rows(41, 60))
      if (name.startsWith('a look-back')) {
        await server.seal(rows(61, 70))
        await server.seal(rows(71, last))
      } else await server.append(...rows(61, last))
      plan(server)
      const statuses: StreamStatus[] = []
      const client = createClient(
        { url: server.url, apiKey: 'key', retry: { firstMs: 1, maxMs: 4 }, download: { partBytes: 500 } },
        runtime,
      )
      const reading = client.replay({ throughSeq: last, onStatus: (status) => statuses.push(status) })
      const seqs: number[] = []
      for await (const { events, gaps } of reading) {
        seqs.push(...events.map(({ seq }) => seq))
        assert.deepEqual(gaps, [])
      }
      const all = Array.from({ length: last }, (_, i) => i + 1)
      assert.deepEqual(seqs, all)
      const lines = statuses.map((status) =>
        status.type === 'reconnecting' ? `${status.reason} ${status.detail}` : status.type,
      )
      assert.match(lines.join('\n'), told)
    })
  }
}

test('a key is in nothing that is told, whatever goes wrong', async () => {
  const apiKey = 'the-key-of-this-test-0123456789'
  await using server = await StreamServer.start()
  await server.seal(rows(1, 20))
  const answers: Take[] = [
    (response) => response.socket?.destroy() !== undefined,
    (response, count) => count < 2 && answerError(response, 500, 'InternalServerError') === undefined,
    (response) => answerError(response, 401, 'AuthenticationRequired') === undefined,
  ]
  const told: unknown[] = []
  for (const take of answers) {
    interceptEach(server, 'getSegment', take)
    const retry = { firstMs: 1, maxMs: 2, attemptsMax: 3 }
    const reading = createStreamClient({ url: server.url, apiKey, retry }).replay({
      throughSeq: 20,
      onStatus: (status) => told.push(status),
    })
    await reading.next().catch((error: unknown) => told.push(error))
    told.push(reading)
  }
  const text = inspect(told, { depth: Infinity, showHidden: true })
  assert.match(text, /AuthenticationRequired/)
  assert.ok(!text.includes(apiKey), text)
})
