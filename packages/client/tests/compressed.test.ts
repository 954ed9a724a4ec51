/** Compressed live messages: the same events as without, and plain messages wherever compression cannot be had. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { eventDictionary } from '@tributary/zstd-dictionary'
import type { WebSocket } from 'ws'
import { createStreamClient as createBrowserClient } from '../src/index.ts'
import { type ClientOptions, createStreamClient, type StreamStatus } from '../src/node.ts'
import { answerError, eventOf, messageOf, rows, StreamServer } from './stream-server.ts'

const { id, bytes: dictionary } = eventDictionary()
const all = rows(1, 30)
const retry = { firstMs: 1, maxMs: 4, attemptsMax: 20 }

function otherDictionary(otherId: number): Buffer {
  const other = Buffer.from(dictionary)
  other.writeUInt32LE(otherId, 4)
  return other
}

/** Sends all rows after a cursor: compressed when a dictionary was asked for. */
async function sendRows(socket: WebSocket, query: URLSearchParams): Promise<void> {
  const asked = query.get('zstdDictionary')
  for (const each of all.filter(({ seq }) => seq > Number(query.get('cursor') ?? 0))) {
    const text = await messageOf(each)
    const bytes = otherDictionary(Number(asked))
    socket.send(asked === null ? text : zstdCompressSync(text, { dictionary: bytes }))
  }
}

interface Wish {
  dictionary?: (response: ServerResponse) => void
  refuse?: StreamServer['refuse']
  send?: (socket: WebSocket, query: URLSearchParams) => Promise<void>
}

async function startServer({
  dictionary: answer,
  refuse,
  send = sendRows,
}: Wish = {}): Promise<StreamServer> {
  const server = await StreamServer.start()
  server.intercept = (method, _, response) => {
    if (method !== 'getZstdDictionary') return false
    if (answer) answer(response)
    else response.writeHead(200, { 'x-zstd-dictionary-id': String(id) }).end(dictionary)
    return true
  }
  if (refuse) server.refuse = refuse
  server.onSubscriber = (socket, query) => void send(socket, query)
  return server
}

type Create = (options: ClientOptions) => ReturnType<typeof createStreamClient>
const clients: readonly [name: string, create: Create][] = [
  ['Node', createStreamClient],
  ['browsers', createBrowserClient],
]

/** Reads every row twice, each time with `live`, and checks them. */
async function readTwice(server: StreamServer, create: Create, compress = true): Promise<StreamStatus[]> {
  const statuses: StreamStatus[] = []
  const client = create({ url: server.url, compress, retry })
  const expected = await Promise.all(all.map(eventOf))
  for (let times = 0; times < 2; times++) {
    const events: unknown[] = []
    for await (const batch of client.live({ cursor: 0, onStatus: (status) => statuses.push(status) })) {
      assert.deepEqual(batch.gaps, [])
      events.push(...batch.events)
      if (batch.cursor === all.length) break
    }
    assert.deepEqual(events, expected)
  }
  return statuses
}

const uncompressed = (statuses: readonly StreamStatus[]): string[] =>
  statuses.flatMap((status) => (status.type === 'uncompressed' ? [status.detail] : []))
const subscriptions = ({ requests }: StreamServer): (string | null)[] =>
  requests
    .filter((each) => each.startsWith('subscribeEvents'))
    .map((each) => new URLSearchParams(each.split('?')[1]).get('zstdDictionary'))
const fetches = ({ requests }: StreamServer): number =>
  requests.filter((each) => each.startsWith('getZstdDictionary')).length

for (const [name, create] of clients) {
  test(`in ${name} compressed messages give the same events, and the dictionary is fetched once`, async () => {
    await using server = await startServer()
    assert.deepEqual(uncompressed(await readTwice(server, create)), [])
    assert.deepEqual(subscriptions(server), [String(id), String(id)])
    assert.equal(fetches(server), 1)
  })

  test(`in ${name} nothing is compressed that was not asked for`, async () => {
    await using server = await startServer()
    await readTwice(server, create, false)
    assert.deepEqual(subscriptions(server), [null, null])
    assert.equal(fetches(server), 0)
  })

  test(`in ${name} messages come plain from a server whose dictionary cannot be had`, async () => {
    const answers: ((response: ServerResponse) => void)[] = [
      (response) => answerError(response, 501, 'MethodNotImplemented'),
      (response) => answerError(response, 404, 'DictionaryNotFound'),
      (response) => void response.writeHead(200).end('not a dictionary'),
      (response) => void response.writeHead(200).end(dictionary.subarray(0, 50)),
      (response) => void response.writeHead(200, { 'x-zstd-dictionary-id': '7' }).end(dictionary),
      (response) => void response.writeHead(200).end(Buffer.concat([dictionary, Buffer.alloc(1 << 20)])),
    ]
    for (const answer of answers) {
      await using server = await startServer({ dictionary: answer })
      assert.equal(uncompressed(await readTwice(server, create)).length, 1)
      assert.deepEqual(subscriptions(server), [null, null])
      assert.equal(fetches(server), 1)
    }
  })

  test(`in ${name} a message that cannot be read, or is too large, ends compression and loses no event`, async () => {
    const claims = Buffer.from(zstdCompressSync('x'.repeat(300), { dictionary }))
    // A size of eight bytes, which says four gigabytes and is followed by the blocks of 300 bytes.
    const huge = Buffer.concat([
      claims.subarray(0, 4),
      Buffer.from([0b1110_0011]),
      claims.subarray(5, 9),
      Buffer.from([0, 0, 0, 0, 1, 0, 0, 0]),
      claims.subarray(11),
    ])
    const bad = [
      huge,
      zstdCompressSync(Buffer.alloc(9 << 20, 'a'), { dictionary }),
      zstdCompressSync('without a dictionary'),
      Buffer.from('no frame'),
      Buffer.alloc(0),
    ]
    for (const message of bad) {
      const send = async (socket: WebSocket, query: URLSearchParams): Promise<void> => {
        if (!query.has('zstdDictionary')) return sendRows(socket, query)
        for (const each of all.slice(0, 10))
          socket.send(zstdCompressSync(await messageOf(each), { dictionary }))
        socket.send(message)
      }
      await using server = await startServer({ send })
      const before = process.memoryUsage().arrayBuffers
      const statuses = await readTwice(server, create)
      assert.ok(process.memoryUsage().arrayBuffers - before < 100_000_000)
      assert.equal(uncompressed(statuses).length, 1)
      assert.deepEqual(subscriptions(server), [String(id), null, null])
      // What came before is not asked for again.
      assert.ok(
        server.requests.some((each) => each.includes('cursor=10&')),
        server.requests.join(),
      )
    }
  })
}

test('a server that has another dictionary by now is asked for it', async () => {
  let current = id
  await using server = await startServer({
    dictionary: (response) => void response.writeHead(200).end(otherDictionary(current)),
    refuse: (query) => {
      if (query.get('zstdDictionary') !== String(id)) return undefined
      current = id + 1
      return { status: 400, error: 'UnknownZstdDictionary' }
    },
  })
  assert.deepEqual(uncompressed(await readTwice(server, createStreamClient)), [])
  assert.deepEqual(subscriptions(server), [String(id), String(id + 1), String(id + 1)])
  assert.equal(fetches(server), 2)
})

test('a server that does not know the dictionary that it gives is read plain', async () => {
  const refuse: StreamServer['refuse'] = (query) =>
    query.has('zstdDictionary') ? { status: 400, error: 'UnknownZstdDictionary' } : undefined
  for (const [, create] of clients) {
    await using server = await startServer({ refuse })
    assert.equal(uncompressed(await readTwice(server, create)).length, 1)
    assert.deepEqual(subscriptions(server), [String(id), null, null])
  }
})
