import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { encode } from '@atcute/cbor'
import { type Decompress, decodeFrame } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { eventually } from '@tributary/testkit'
import { createClient } from '../src/client.ts'
import { createStreamClient } from '../src/index.ts'
import { readSession } from '../src/live-session.ts'
import { openNodeSocket } from '../src/node-socket.ts'
import type { Runtime } from '../src/runtime.ts'
import type { StreamStatus } from '../src/status.ts'
import { answerError, messageOf, row, rows, StreamServer } from './stream-server.ts'

const fast = { firstMs: 1, maxMs: 4 }
/** Messages of about 0.5 MB, twenty of which are more than is held for a busy consumer. */
const padding = 'x'.repeat(500_000)

const runtime: Runtime = {
  decode: (frame) => decodeFrame(frame, nodeDecompress),
  sha256: (bytes) => createHash('sha256').update(bytes).digest(),
  openSocket: openNodeSocket,
  failuresHaveCause: true,
  showsRefusals: true,
  stallMs: 60_000,
  idleLimitMs: 60_000,
}

async function paddedMessage(seq: number): Promise<string> {
  const message = await messageOf(row(seq))
  return message.replace(`activity ${seq}`, padding)
}

test('a busy consumer makes reading pause, and everything arrives once it goes on', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket) => {
    void (async () => {
      for (let seq = 1; seq <= 40; seq++) socket.send(await paddedMessage(seq))
    })()
  }
  const paused = Promise.withResolvers<void>()
  let received = 0
  let pauses = 0
  let resumes = 0
  const client = createClient(
    { url: server.url },
    {
      ...runtime,
      openSocket: (url, subprotocol, handlers) => {
        const socket = openNodeSocket(url, subprotocol, {
          ...handlers,
          message: (text) => {
            received++
            handlers.message(text)
          },
        })
        return {
          close: () => socket.close(),
          flow: {
            pause: () => {
              pauses++
              socket.flow?.pause()
              paused.resolve()
            },
            resume: () => {
              resumes++
              socket.flow?.resume()
            },
          },
        }
      },
    },
  )
  const seqs: number[] = []
  for await (const batch of client.live({ cursor: 0 })) {
    if (seqs.length === 0) {
      await paused.promise
      assert.ok(received < 20, `${received} messages were taken in while the consumer was busy`)
    }
    seqs.push(...batch.events.map((event) => event.seq))
    if (batch.cursor === 40) break
  }
  assert.deepEqual(
    seqs,
    Array.from({ length: 40 }, (_, i) => i + 1),
  )
  assert.ok(pauses > 0 && resumes > 0)
})

test('where sockets cannot pause, the connection is given up and resumed from the cursor', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket, query) => {
    void (async () => {
      for (let seq = Math.max(1, Number(query.get('cursor'))); seq <= 30; seq++)
        socket.send(await paddedMessage(seq))
    })()
  }
  const client = createStreamClient({ url: server.url, decompress: nodeDecompress, retry: fast })
  const statuses: StreamStatus[] = []
  const seqs: number[] = []
  for await (const batch of client.live({ cursor: 0, onStatus: (status) => statuses.push(status) })) {
    if (seqs.length === 0)
      await server.until(() => server.requests.length === 1 && server.subscribers.size === 0)
    seqs.push(...batch.events.map((event) => event.seq))
    if (batch.cursor === 30) break
  }
  assert.deepEqual(
    seqs,
    Array.from({ length: 30 }, (_, i) => i + 1),
  )
  assert.ok(statuses.some((status) => status.type === 'reconnecting' && status.reason === 'consumer-busy'))
})

test('the client of the web standards reads archive and live stream as that of Node does', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 20))
  await server.append(...rows(21, 25))
  const client = createStreamClient({ url: server.url, decompress: nodeDecompress, retry: fast })
  const events = []
  for await (const batch of client.replay()) {
    events.push(...batch.events)
    if (batch.cursor === 25) break
  }
  assert.deepEqual(
    events.map((event) => event.seq),
    Array.from({ length: 25 }, (_, i) => i + 1),
  )
})

test('a refusal that the platform hides leads through the archive', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10))
  // The archive is filled only after the first plan.
  server.intercept = (method, _request, response) => {
    if (method !== 'planSnapshot' || server.requests.length > 1) return false
    response.end(JSON.stringify({ plannedThroughSeq: 0, sealedTipSeq: 0, segments: [] }))
    return true
  }
  server.refuse = (query) =>
    Number(query.get('cursor')) >= 10 ? undefined : { status: 400, error: 'CursorTooOld' }
  const client = createStreamClient({ url: server.url, decompress: nodeDecompress, retry: fast })
  const seqs: number[] = []
  for await (const batch of client.replay()) {
    seqs.push(...batch.events.map((event) => event.seq))
    if (batch.cursor >= 10) break
  }
  assert.deepEqual(seqs, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

for (const read of ['live', 'replay'] as const) {
  test(`where refusals are hidden, ${read} waits for a server that is away, without a key`, async () => {
    await using server = await StreamServer.start()
    await server.append(...rows(1, 4))
    let connections = 0
    const isAway = (): boolean => connections > 1 && connections < 8
    server.refuse = () => (connections++, isAway() ? { status: 502, error: 'BadGateway' } : undefined)
    server.onSubscriber = (socket, query) => {
      server.replay(socket, query.get('cursor'))
      if (connections === 1) socket.close()
      else void server.append(row(5))
    }
    server.intercept = (method, _request, response) => {
      if (method === 'planSnapshot') answerError(response, 401, 'AuthenticationRequired')
      else if (isAway()) response.destroy()
      else return false
      return true
    }
    const seqs: number[] = []
    const details: string[] = []
    const onStatus = (status: StreamStatus): void => {
      if (status.type === 'reconnecting') details.push(status.detail)
    }
    const client = createStreamClient({ url: server.url, retry: fast })
    for await (const batch of client[read]({ cursor: 2, onStatus })) {
      seqs.push(...batch.events.map((event) => event.seq))
      if (batch.cursor === 5) break
    }
    assert.deepEqual(seqs, [3, 4, 5])
    assert.ok(details.filter((detail) => detail.includes('did not answer')).length >= 5, details.join('\n'))
  })
}

test('a connection without any sign of life is replaced by itself', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket, query) => {
    if (server.requests.length === 1) {
      // A dead peer: open, silent, and deaf to pings.
      socket.pause()
      return
    }
    void messageOf(row(Number(query.get('cursor')) + 1)).then((text) => socket.send(text))
  }
  const client = createClient({ url: server.url, retry: fast }, { ...runtime, idleLimitMs: 20 })
  const reasons: string[] = []
  for await (const batch of client.live({
    cursor: 4,
    onStatus: (status) => void (status.type === 'reconnecting' && reasons.push(status.reason)),
  })) {
    assert.equal(batch.cursor, 5)
    break
  }
  assert.ok(reasons.length > 0 && reasons.every((reason) => reason === 'idle'))
})

test('messages without any text are held back like others while the consumer is busy', async () => {
  let received = 0
  const paused = Promise.withResolvers<void>()
  const session = readSession({
    open: (handlers) => {
      const flow = { pause: paused.resolve, resume: () => undefined }
      const send = (): void => {
        for (; received < 200_000; received++) handlers.message('')
      }
      setImmediate(send)
      return { close: () => undefined, flow }
    },
    idleLimitMs: 60_000,
    onOpen: () => undefined,
    signal: new AbortController().signal,
  })
  await session.next()
  await paused.promise
  await session.return(undefined)
})

test('blocks are decompressed ahead of the consumer within a bound of bytes', async () => {
  await using server = await StreamServer.start()
  const payload = encode({ $type: 'org.impact.claim.activity', title: 'x'.repeat(999_950) })
  const blocks = Array.from({ length: 14 }, (_, i) => rows(4 * i + 1, 4 * i + 4, { payload }))
  await server.seal(...blocks)
  let decompressed = 0
  const decompress: Decompress = (frame, bytesMax) => {
    decompressed++
    return nodeDecompress(frame, bytesMax)
  }
  const download = { partBytes: 1024 * 1024, parallel: blocks.length }
  const client = createStreamClient({ url: server.url, decompress, retry: fast, download })
  const batches = client.snapshot()
  const first = await batches.next()
  // The batch has 8 MiB, out of three blocks; one of the others has the 2 MiB that may wait, and more.
  await eventually(() => decompressed >= 4)
  for (let turn = 0; turn < 100; turn++) await nextTurn()
  assert.equal(decompressed, 4)
  let events = first.value?.events.length ?? 0
  for await (const batch of batches) events += batch.events.length
  assert.deepEqual({ events, decompressed }, { events: 56, decompressed: 14 })
})
