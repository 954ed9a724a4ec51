import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EventLog } from '@tributary/event-log'
import type { WebSocket } from 'ws'
import {
  Fanout,
  frameMessage,
  type CatchUpSource,
  type FanoutGroup,
  type FanoutOptions,
  type Subscriber,
} from './index.ts'

interface Front extends AsyncDisposable {
  url: string
  port: number
  log: EventLog
  fanout: Fanout
  group: FanoutGroup
  /** Appends a message that holds its own seq, padded to a size. */
  write: (size?: number) => number
}

const megabyte = 1024 * 1024

const errorFrame: FanoutOptions['errorFrame'] = (error, message) =>
  frameMessage('text', Buffer.from(`${error}: ${message}`))

/** A real log behind a real WebSocket server, as the services wire them. */
export async function startFront(options: Partial<FanoutOptions> = {}): Promise<Front> {
  const directory = mkdtempSync(join(tmpdir(), 'fanout-'))
  const log = await EventLog.open({ directory, tailBytesMax: 20_000 })
  const fanout = new Fanout({
    errorFrame,
    ...options,
  })
  const group = fanout.group({
    headSeq: () => log.visibleSeq,
    read: async (afterSeq, maxBytes) => {
      const slices = await log.read(afterSeq, maxBytes)
      return {
        frames: slices.map((slice) => slice.bytes),
        lastSeq: slices.at(-1)?.lastSeq ?? log.visibleSeq,
        free: () => slices.forEach((slice) => slice.free()),
      }
    },
  })
  log.onVisible((slices) =>
    group.publish(
      slices.map((slice) => slice.bytes),
      slices.at(-1)?.lastSeq ?? 0,
    ),
  )
  const server = createServer()
  server.on('upgrade', (request, socket, head) => {
    const cursor = new URL(request.url ?? '', 'http://localhost').searchParams.get('cursor')
    fanout.accept(request, socket as Socket, head, '127.0.0.1', (connection) =>
      group.subscribe(connection, { afterSeq: cursor === null ? log.visibleSeq : Number(cursor) }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `ws://127.0.0.1:${port}`,
    port,
    log,
    fanout,
    group,
    write: (size = 10) =>
      log.append(
        { kind: 1, account: 0n, source: 0, epoch: 0, upstreamSeq: 0 },
        frameMessage('text', Buffer.from(String(log.nextSeq).padEnd(size))),
      ),
    async [Symbol.asyncDispose]() {
      await fanout.close()
      server.close()
      server.closeAllConnections()
      await log.close()
      rmSync(directory, { recursive: true })
    },
  }
}

interface GroupFront extends AsyncDisposable {
  /** What readers in a dialogue sent, in the order of its arrival. Reading takes one piece for each megabyte. */
  texts: string[]
  url: string
  port: number
  fanout: Fanout
  group: FanoutGroup
  /** Of readers that say so in the query. */
  other: FanoutGroup
  /** Called once, right before the next reader is subscribed. */
  beforeSubscribe: () => void
  /** Texts that began to be read. */
  begun: number
  /** While it is set no text is read to its end. */
  isReadingSlow: boolean
  /** What a text does, after it was noted. */
  onText: (text: string, subscriber: Subscriber) => void
  /** Readers that were told to be gone. */
  left: number
}

/**
 * A fan-out over a source that the test makes. A reader says in the query where it begins, which address it has and what
 * it wants to be told first.
 */
export async function startGroup(
  source: CatchUpSource,
  options: Partial<FanoutOptions> = {},
  { highWaterMark }: { highWaterMark?: number } = {},
): Promise<GroupFront> {
  const fanout = new Fanout({ errorFrame, ...options })
  const group = fanout.group(source)
  const other = fanout.group(source)
  const server = createServer({ highWaterMark })
  server.on('upgrade', (request, socket, head) => {
    const { searchParams } = new URL(request.url ?? '', 'http://localhost')
    const address = searchParams.get('address') ?? '127.0.0.1'
    // An upgraded request of an HTTP server always has a TCP socket.
    fanout.accept(
      request,
      socket as Socket,
      head,
      address,
      (connection) => {
        front.beforeSubscribe()
        front.beforeSubscribe = () => {}
        const greeting = searchParams.get('greeting')
        const joined = searchParams.has('other') ? other : group
        const subscriber = joined.subscribe(connection, {
          afterSeq: Number(searchParams.get('cursor') ?? source.headSeq()),
          ...(greeting !== null && { greeting: frameMessage('text', Buffer.from(greeting)) }),
          *readText(bytes) {
            front.begun++
            const text = bytes.toString()
            for (let at = megabyte; at < text.length || front.isReadingSlow; at += megabyte) yield
            front.texts.push(text)
            front.onText(text, subscriber)
          },
          onClose: () => front.left++,
        })
      },
      searchParams.has('dialogue') ? 'dialogue' : 'push',
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens on TCP
  const front: GroupFront = {
    url: `ws://127.0.0.1:${port}`,
    port,
    fanout,
    group,
    other,
    beforeSubscribe: () => {},
    texts: [],
    begun: 0,
    isReadingSlow: false,
    onText: () => {},
    left: 0,
    async [Symbol.asyncDispose]() {
      await fanout.close()
      server.close()
      server.closeAllConnections()
    },
  }
  return front
}

/** Reads seqs until `last` has come. */
export async function readThrough(socket: WebSocket, last: number): Promise<number[]> {
  const seqs: number[] = []
  await new Promise<void>((resolve, reject) => {
    socket.on('message', (data: Buffer) => {
      const seq = Number(data.toString())
      seqs.push(seq)
      if (seq >= last) resolve()
    })
    socket.on('close', (code, reason) => reject(new Error(`closed ${code} ${reason.toString()}`)))
  })
  return seqs
}

export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i)
