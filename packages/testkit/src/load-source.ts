import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { encodeError } from './commit-event.ts'
import { answerLoadRequest } from './load-answers.ts'
import type { LoadReplay } from './load-replay.ts'
import { monotonicMs } from './load-replay.ts'

/** What is read from the file and written to a socket at a time, unless one event is larger. */
const batchBytesMax = 256 * 1024

/** One host of a load: it has the accounts whose index leaves its own when divided by the hosts. */
export class LoadSource {
  readonly replay: LoadReplay
  /** Names of all hosts of the load; this one is `hosts[index]`. */
  readonly hosts: readonly string[]
  readonly index: number
  /** How long it holds DID documents back. */
  readonly directoryDelayMs: number
  /** Indexes of this host's events, ascending. */
  readonly events: Uint32Array
  readonly #webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  readonly #server: Server

  constructor(
    replay: LoadReplay,
    { hosts, index, directoryDelayMs }: Pick<LoadSource, 'hosts' | 'index' | 'directoryDelayMs'>,
  ) {
    this.replay = replay
    this.directoryDelayMs = directoryDelayMs
    this.hosts = hosts
    this.index = index
    const { accountOf } = replay.load
    this.events = Uint32Array.from(accountOf.keys().filter((event) => this.has(accountOf[event] ?? 0)))
    this.#server = createServer((request, response) => answerLoadRequest(this, request, response))
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
  }

  /** Whether the account with this index lives here. */
  has(account: number): boolean {
    return account % this.hosts.length === this.index
  }

  async listen(address: string, port: number): Promise<void> {
    this.#server.listen({ port, host: address })
    await once(this.#server, 'listening')
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const text = url.searchParams.get('cursor')
    const cursor = text === null ? this.replay.head : Number(text)
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      // A reader that goes away while it is written to is seen by 'close'.
      webSocket.on('error', () => undefined)
      if (cursor > this.replay.head) {
        webSocket.send(encodeError('FutureCursor', 'Cursor in the future.'))
        webSocket.close(1008, 'FutureCursor')
      } else {
        this.#feed(socket, cursor)
      }
    })
  }

  /** Writes every event after `cursor`, now and later, to a socket whose WebSocket is open. */
  #feed(socket: Duplex, cursor: number): void {
    let next = lowerBound(this.events, cursor)
    let isFull = false
    const write = (): void => {
      while (!isFull && !socket.destroyed && (this.events[next] ?? Infinity) < this.replay.head) {
        const end = this.#batchEnd(next)
        const bytes = this.#read(next, end)
        // Before the write: a reader on another processor may have the event before the call is back.
        const nowMs = monotonicMs()
        isFull = !socket.write(bytes)
        for (; next < end; next++) this.replay.noteSent(this.events[next] ?? 0, nowMs)
      }
    }
    const unlisten = this.replay.onHead(write)
    socket.on('drain', () => {
      isFull = false
      write()
    })
    socket.once('close', unlisten)
    write()
  }

  /** Where the batch that starts at `start` ends: at the head, or when it is large enough. */
  #batchEnd(start: number): number {
    const { offsets } = this.replay.load
    const from = offsets[this.events[start] ?? 0] ?? 0
    let end = start + 1
    while ((this.events[end] ?? Infinity) < this.replay.head) {
      if ((offsets[(this.events[end] ?? 0) + 1] ?? 0) - from > batchBytesMax) break
      end += 1
    }
    return end
  }

  /** The events at these places of `events` as WebSocket frames. */
  #read(start: number, end: number): Buffer {
    const { load } = this.replay
    const from = this.events[start] ?? 0
    const span = load.readFrames(from, (this.events[end - 1] ?? from) + 1)
    if (this.hosts.length === 1) return span
    // The accounts of the other hosts lie between: keep what is ours.
    const base = load.offsets[from] ?? 0
    let length = 0
    for (const event of this.events.subarray(start, end)) {
      const at = (load.offsets[event] ?? 0) - base
      const after = (load.offsets[event + 1] ?? 0) - base
      span.copyWithin(length, at, after)
      length += after - at
    }
    return span.subarray(0, length)
  }
}

/** The first place whose value is not below `value`. */
function lowerBound(sorted: Uint32Array, value: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] ?? 0) < value) low = middle + 1
    else high = middle
  }
  return low
}
