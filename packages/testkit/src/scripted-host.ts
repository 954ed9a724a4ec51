/**
 * A host that a relay subscribes to like a PDS and that does what a test says: its accounts are
 * registered in a real PLC directory and sign real commits, while the event stream may hold anything
 * at all. What is emitted is kept, so a reader that comes back with a cursor gets it again.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { encodeError, encodeEvent } from './commit-event.ts'
import type { EventBody } from './commit-event.ts'
import { freePort } from './free-port.ts'
import { answerHostRequest } from './host-answers.ts'
import { HostConnection } from './host-connection.ts'
import { hostileMessage } from './hostile-message.ts'
import type { HostileKind } from './hostile-message.ts'
import { registerAccount } from './scripted-account.ts'
import type { ScriptedAccount } from './scripted-account.ts'

export interface ScriptedHostOptions {
  plcUrl: string
  /** Address to listen on. Several of 127.x with one port look like many hosts. Default 127.0.0.1. */
  address?: string
  /** The name in its URL. Default `localhost`, or the address when that is another one. */
  name?: string
  /** Default: a free one. */
  port?: number
  /** Events kept, at least, for readers that come back; older ones are forgotten. Default 100,000. */
  retainedEvents?: number
}

/** Answers one request in place of the host's own answer. */
export type HostAnswer = (request: IncomingMessage, response: ServerResponse) => void

const requestsMax = 10_000
const subscribePath = '/xrpc/com.atproto.sync.subscribeRepos'

interface RetainedEvent {
  seq: number
  message: Uint8Array
}

export class ScriptedHost implements AsyncDisposable {
  readonly plcUrl: string
  readonly address: string
  readonly port: number
  /** `NAME:PORT`, as a relay knows it. */
  readonly host: string
  readonly accounts = new Map<string, ScriptedAccount>()
  /** Answers that replace the host's own, by method name. */
  readonly answers = new Map<string, HostAnswer>()
  /** Paths with queries of the requests so far, oldest first. */
  readonly requests: string[] = []
  /** When set, the next subscriptions are answered with this HTTP status instead. */
  refuseWithStatus: number | undefined
  readonly #connections = new Set<HostConnection>()
  readonly #waiting: ((connection: HostConnection) => void)[] = []
  readonly #retainedEvents: number
  readonly #webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  #events: RetainedEvent[] = []
  #lastSeq = 0
  #forgottenSeq = 0
  #server: Server | undefined

  constructor(options: ScriptedHostOptions & { port: number }) {
    const { address = '127.0.0.1' } = options
    const { name = address === '127.0.0.1' ? 'localhost' : address } = options
    this.plcUrl = options.plcUrl
    this.address = address
    this.port = options.port
    this.#retainedEvents = options.retainedEvents ?? 100_000
    this.host = `${name}:${options.port}`
  }

  get url(): string {
    return `http://${this.host}`
  }

  /** Seq of the last event emitted, 0 before the first. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  /** The open subscriptions, oldest first. */
  get connections(): HostConnection[] {
    return [...this.#connections]
  }

  /** The next subscription to be opened, or the oldest open one. */
  async connection(): Promise<HostConnection> {
    const [open] = this.#connections
    return open ?? this.nextConnection()
  }

  /** The next subscription to be opened after this call. */
  async nextConnection(): Promise<HostConnection> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Creates an account, registers it in the PLC directory and, by default, emits its first events. */
  async createAccount(options: { handle?: string; announce?: boolean } = {}): Promise<ScriptedAccount> {
    const account = await registerAccount(this, options)
    this.accounts.set(account.did, account)
    if (options.announce !== false) account.announce()
    return account
  }

  /** Emits a well-formed event; `seq` and `time` are added unless `body` has them. Returns the seq. */
  emit(type: string, body: EventBody): number {
    const seq = this.#lastSeq + 1
    return this.emitMessage(encodeEvent(type, { seq, time: new Date().toISOString(), ...body }))
  }

  /** Emits any bytes as one message at the next position. Returns that position. */
  emitMessage(message: Uint8Array): number {
    this.#lastSeq += 1
    this.#events.push({ seq: this.#lastSeq, message })
    if (this.#events.length > 2 * this.#retainedEvents) {
      this.forgetThrough(this.#events.at(-1 - this.#retainedEvents)?.seq ?? 0)
    }
    for (const connection of this.#connections) connection.send(message)
    return this.#lastSeq
  }

  /**
   * Emits a message that a strict reader must refuse. The account stays as it was, so its next
   * commit continues the last good one. `other` is an account of another key, or of another host.
   */
  emitHostile(kind: HostileKind, account: ScriptedAccount, other: ScriptedAccount): number {
    return this.emitMessage(hostileMessage(kind, { account, other, seq: this.#lastSeq + 1 }))
  }

  /** Leaves a hole: the next event gets `seq`, which must be above the last one. */
  skipTo(seq: number): void {
    if (seq <= this.#lastSeq) throw new RangeError(`seq ${seq} was emitted already`)
    this.#lastSeq = seq - 1
  }

  /** Drops the events up to `seq`: a cursor before it is answered with `OutdatedCursor`. */
  forgetThrough(seq: number): void {
    this.#events = this.#events.filter((event) => event.seq > seq)
    this.#forgottenSeq = Math.max(this.#forgottenSeq, seq)
  }

  /** Starts again at seq 1 with no events, as a host that was rebuilt does. Closes all connections. */
  restartNumbering(): void {
    this.#events = []
    this.#lastSeq = 0
    this.#forgottenSeq = 0
    for (const connection of this.#connections) connection.terminate()
  }

  /** Comes back on the same address with accounts and events after `stop()`. */
  async start(): Promise<void> {
    if (this.#server !== undefined) throw new Error(`${this.host} runs already`)
    const server = createServer((request, response) => this.#answer(request, response))
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
    server.listen({ port: this.port, host: this.address })
    await once(server, 'listening')
    this.#server = server
  }

  /** Cuts every connection. Events can be emitted meanwhile; readers get them after `start()`. */
  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (server === undefined) return
    for (const connection of this.#connections) connection.terminate()
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #note(request: IncomingMessage): URL {
    if (this.requests.length < requestsMax) this.requests.push(request.url ?? '')
    return new URL(request.url ?? '/', this.url)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = this.#note(request)
    const own = this.answers.get(url.pathname.replace('/xrpc/', ''))
    if (own === undefined) answerHostRequest(this, url, response)
    else own(request, response)
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const url = this.#note(request)
    const status = url.pathname === subscribePath ? this.refuseWithStatus : 404
    if (status !== undefined) {
      socket.end(`HTTP/1.1 ${status} Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`)
      return
    }
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      const text = url.searchParams.get('cursor')
      const connection = new HostConnection(webSocket, socket, text === null ? undefined : Number(text))
      this.#connections.add(connection)
      void connection.closed.then(() => this.#connections.delete(connection))
      this.#replay(connection)
      for (const resolve of this.#waiting.splice(0)) resolve(connection)
    })
  }

  #replay(connection: HostConnection): void {
    const { cursor } = connection
    if (cursor === undefined) return
    if (cursor > this.#lastSeq) {
      connection.send(encodeError('FutureCursor', 'Cursor in the future.'))
      connection.close(1008, 'FutureCursor')
      return
    }
    if (cursor < this.#forgottenSeq) {
      const message = 'Requested cursor exceeded limit. Possibly missing events'
      connection.send(encodeEvent('#info', { name: 'OutdatedCursor', message }))
    }
    for (const { seq, message } of this.#events) if (seq > cursor) connection.send(message)
  }
}

/** Starts a host with no accounts and no events. */
export async function startScriptedHost(options: ScriptedHostOptions): Promise<ScriptedHost> {
  const host = new ScriptedHost({ ...options, port: options.port ?? (await freePort()) })
  await host.start()
  return host
}
