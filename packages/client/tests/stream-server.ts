/**
 * A small server of the stream's wire for the client's tests: real HTTP, real WebSockets, real segment files written
 * by @tributary/segment. A test adds rows, seals them, and may take over single requests to misbehave.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { encode } from '@atcute/cbor'
import {
  type BlockEntry,
  decodeBlock,
  encodeBlockBody,
  parseSegment,
  type Row,
  segmentName,
} from '@tributary/segment'
import { ActiveSegment, nodeDecompress } from '@tributary/segment/node'
import type { StreamEvent } from '@tributary/protocol'
import { inTime } from '@tributary/testkit'
import { type WebSocket, WebSocketServer } from 'ws'
import { plainEvent, rowEvent } from '../src/row-event.ts'

interface Segment {
  name: string
  bytes: Uint8Array
  blocks: readonly BlockEntry[]
  frames: Uint8Array[]
}

interface PlanInput {
  afterSeq?: number
  beforeSeq?: number
}

export const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
const startMicros = 1_750_000_000_000_000
/** The length of a frame stands before it in a segment. */
const framePrefixBytes = 8

/** A create of an activity, unless told otherwise. */
export function row(seq: number, fields: Partial<Row> = {}): Row {
  return {
    seq,
    witnessedAt: startMicros + seq,
    indexedAt: 0,
    kind: 1,
    collection: 'org.impact.claim.activity',
    did,
    rkey: `r${seq}`,
    rev: '3migo7fijwi2k',
    payload: encode({ $type: 'org.impact.claim.activity', title: `activity ${seq}` }),
    ...fields,
  }
}

/** Rows with consecutive seqs. */
export function rows(first: number, last: number, fields: Partial<Row> = {}): Row[] {
  return Array.from({ length: last - first + 1 }, (_, i) => row(first + i, fields))
}

/** The text message that the live stream sends for a row. */
export async function messageOf(source: Row, prefix = 'network.social.stream'): Promise<string> {
  const { kind, ...event } = await eventOf(source)
  return JSON.stringify({
    $type: 'message',
    payload: { $type: `${prefix}.subscribeEvents#${kind}`, ...event },
  })
}

function sha256Of(bytes: Uint8Array): Uint8Array {
  return createHash('sha256').update(bytes).digest()
}

/** A row as the client should give it out. */
export async function eventOf(source: Row): Promise<StreamEvent> {
  return plainEvent(rowEvent(decodeBlock(encodeBlockBody([source])), 0, source.seq, sha256Of))
}

function maxSeqOf(segment: Segment): number {
  return segment.blocks.at(-1)?.maxSeq ?? 0
}

export class StreamServer implements AsyncDisposable {
  /** Method and query of every request, in order, e.g. `getSegment?name=…`. Subscriptions are among them. */
  readonly requests: string[] = []
  readonly ranges: string[] = []
  /** Takes a request over when it returns true. */
  intercept: (method: string, request: IncomingMessage, response: ServerResponse) => boolean = () => false
  /** Refuses an upgrade when it returns a status and a body. */
  refuse: (query: URLSearchParams) => { status: number; error: string } | undefined = () => undefined
  /** Called with the request of each subscription. */
  onUpgrade: (request: IncomingMessage) => void = () => undefined
  /** Called instead of the replay for a new subscriber when set. */
  onSubscriber: ((socket: WebSocket, query: URLSearchParams, connection: Duplex) => void) | undefined
  /** Segments whose plan names single blocks. */
  plansBlocks = false
  readonly subscribers = new Set<WebSocket>()
  readonly #messages: { seq: number; text: string }[] = []
  readonly #segments: Segment[] = []
  readonly #http = createServer((request, response) => void this.#answer(request, response))
  readonly #sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  readonly #directory: string
  readonly #waiting: { condition: () => boolean; resolve: () => void }[] = []

  private constructor(directory: string) {
    this.#directory = directory
    this.#http.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
  }

  static async start(): Promise<StreamServer> {
    const server = new StreamServer(await mkdtemp(join(tmpdir(), 'client-test-')))
    const { promise, resolve } = Promise.withResolvers<void>()
    server.#http.listen(0, '127.0.0.1', resolve)
    await promise
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}` // listening on a port
  }

  get headSeq(): number {
    return this.#messages.at(-1)?.seq ?? 0
  }

  /** Seals a segment of these blocks; their rows can be replayed live as well. */
  async seal(...blocks: Row[][]): Promise<void> {
    for (const one of blocks.flat()) {
      // A row that cannot be decoded is no message either; it is for the archive's reader to meet.
      const text = await messageOf(one).catch(() =>
        JSON.stringify({ $type: 'message', payload: { seq: one.seq } }),
      )
      this.#messages.push({ seq: one.seq, text })
    }
    this.#segments.push(await this.#write(segmentName(this.#segments.length), blocks))
  }

  /** Adds a sealed segment as it is. */
  addSegment(bytes: Uint8Array): void {
    const { blocks } = parseSegment(bytes, nodeDecompress)
    const frames = blocks.map(({ offset, compressedSize }) =>
      bytes.subarray(offset + framePrefixBytes, offset + framePrefixBytes + compressedSize),
    )
    this.#segments.push({ name: segmentName(this.#segments.length), bytes, blocks, frames })
  }

  /** Replaces the file of a segment, as compaction does. */
  async rewrite(index: number, ...blocks: Row[][]): Promise<void> {
    this.#segments[index] = await this.#write(segmentName(index), blocks)
  }

  segment(index: number): Segment {
    const segment = this.#segments[index]
    if (!segment) throw new Error(`no segment ${index}`)
    return segment
  }

  /** Adds rows that are not sealed yet, and sends them to every subscriber. */
  async append(...added: Row[]): Promise<void> {
    for (const one of added) {
      const text = await messageOf(one)
      this.#messages.push({ seq: one.seq, text })
      for (const socket of this.subscribers) socket.send(text)
    }
  }

  /** Resolves once the condition holds; it is looked at after every request and every change of the subscribers. */
  async until(condition: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ condition, resolve })
    this.#changed()
    await inTime(promise, () => ({ requests: this.requests, subscribers: this.subscribers.size }))
  }

  /** Drops every connection without a word. */
  dropSubscribers(): void {
    for (const socket of this.subscribers) socket.terminate()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.dropSubscribers()
    this.#http.closeAllConnections()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#http.close(() => resolve())
    await promise
    await rm(this.#directory, { recursive: true, force: true })
  }

  async #write(name: string, blocks: Row[][]): Promise<Segment> {
    const path = join(this.#directory, `${name}-${Math.random()}`)
    const active = await ActiveSegment.create(path)
    for (const block of blocks) await active.appendBlock(block)
    await active.seal()
    const frames = await Promise.all(blocks.map((_, i) => active.readFrame(i)))
    const segment = { name, bytes: await readFile(path), blocks: active.blocks, frames }
    await active.close()
    return segment
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', this.url)
    const method = url.pathname.split(/[./]/).at(-1) ?? ''
    this.requests.push(`${method}${url.search}`)
    if (!this.intercept(method, request, response)) {
      if (url.pathname.endsWith('/ready')) answerJson(response, 200, { headSeq: this.headSeq })
      else if (method === 'planSnapshot') await this.#answerPlan(request, response)
      else if (method === 'getSegment')
        this.#answerSegment(url.searchParams.get('name') ?? '', request, response)
      else if (method === 'getBlock') this.#answerBlock(url.searchParams, response)
      else answerError(response, 501, 'MethodNotImplemented')
    }
    this.#changed()
  }

  async #answerPlan(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request) text += String(chunk)
    const { afterSeq = 0, beforeSeq = Infinity } = JSON.parse(text) as PlanInput // the client under test sent it
    const sealedTipSeq = Math.min(beforeSeq, Math.max(0, ...this.#segments.map(maxSeqOf)))
    const segments = this.#segments.flatMap((segment) => {
      const wanted = segment.blocks.flatMap((block, i) =>
        block.maxSeq > afterSeq && block.minSeq <= beforeSeq ? [{ first: i, last: i }] : [],
      )
      if (wanted.length === 0) return []
      if (wanted.length === segment.blocks.length && !this.plansBlocks)
        return [{ name: segment.name, mode: 'segment' }]
      return [{ name: segment.name, mode: 'blocks', blocks: wanted }]
    })
    answerJson(response, 200, { plannedThroughSeq: sealedTipSeq, sealedTipSeq, segments, stats: {} })
  }

  #answerSegment(name: string, request: IncomingMessage, response: ServerResponse): void {
    const segment = this.#segments.find((one) => one.name === name)
    if (!segment) return answerError(response, 404, 'SegmentNotFound')
    const etag = `"${Buffer.from(segment.bytes).readBigUInt64LE(4).toString(16).padStart(16, '0')}"`
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
    const ifRange = request.headers['if-range']
    this.ranges.push(`${request.headers.range ?? 'whole'}${ifRange === undefined ? '' : ' if same'}`)
    if (!range || (ifRange !== undefined && ifRange !== etag)) {
      response.writeHead(200, { etag, 'content-length': segment.bytes.length }).end(segment.bytes)
      return
    }
    const end = Math.min(Number(range[2]) + 1, segment.bytes.length)
    const contentRange = `bytes ${range[1]}-${end - 1}/${segment.bytes.length}`
    response.writeHead(206, { etag, 'content-range': contentRange })
    response.end(segment.bytes.subarray(Number(range[1]), end))
  }

  #answerBlock(query: URLSearchParams, response: ServerResponse): void {
    const segment = this.#segments.find((one) => one.name === query.get('segment'))
    const frame = segment?.frames[Number(query.get('blockIndex'))]
    if (!frame) return answerError(response, 404, 'BlockNotFound')
    response.writeHead(200).end(frame)
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const url = new URL(request.url ?? '', this.url)
    this.requests.push(`subscribeEvents${url.search}`)
    this.onUpgrade(request)
    const refusal = this.refuse(url.searchParams)
    if (refusal) {
      const body = JSON.stringify({ error: refusal.error, message: 'refused' })
      socket.end(
        `HTTP/1.1 ${refusal.status} No\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
      )
      this.#changed()
      return
    }
    this.#sockets.handleUpgrade(request, socket, head, (subscriber) => {
      this.subscribers.add(subscriber)
      subscriber.on('error', () => subscriber.terminate())
      subscriber.on('close', () => {
        this.subscribers.delete(subscriber)
        this.#changed()
      })
      if (this.onSubscriber) this.onSubscriber(subscriber, url.searchParams, socket)
      else this.replay(subscriber, url.searchParams.get('cursor'))
      this.#changed()
    })
  }

  /** Sends what there is from a cursor on. */
  replay(subscriber: WebSocket, cursor: string | null): void {
    if (cursor === null) return
    for (const { seq, text } of this.#messages) if (seq >= Number(cursor)) subscriber.send(text)
  }

  #changed(): void {
    for (const { condition, resolve } of this.#waiting) if (condition()) resolve()
  }
}

function answerJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

export function answerError(response: ServerResponse, status: number, error: string): void {
  answerJson(response, status, { error, message: 'an error of the test server' })
}
