import { zstdDecompressSync } from 'node:zlib'
import { inTime } from '@tributary/testkit'
import { WebSocket } from 'ws'

/** A message of the stream: the payload of a message frame, or an error frame. */
export interface StreamMessage extends Record<string, unknown> {
  $type: string
  seq?: number
}

export interface EventQuery {
  cursor?: number
  kinds?: readonly string[] | undefined
  collections?: readonly string[] | undefined
  dids?: readonly string[] | undefined
  maxMessageSizeBytes?: number
  progress?: boolean
  /** Asks for compressed messages. They are read with Node's own zstd, and a plain one is an error. */
  zstdDictionary?: { id: number; bytes: Uint8Array }
}

/** A subscriber that keeps what it gets. */
export class EventReader {
  readonly messages: StreamMessage[] = []
  /** Compressed messages as they came. */
  readonly frames: Buffer[] = []
  readonly socket: WebSocket
  /** Close code and reason, when it has ended. */
  readonly closed: Promise<{ code: number; reason: string }>
  #ended: { code: number; reason: string } | undefined
  readonly #waiting: { isMet: () => boolean; resolve: () => void }[] = []

  private constructor(socket: WebSocket, dictionary?: Uint8Array) {
    this.socket = socket
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary !== (dictionary !== undefined))
        throw new Error(`a message is ${isBinary ? '' : 'not '}binary`)
      if (dictionary) this.frames.push(data)
      const text = dictionary ? zstdDecompressSync(data, { dictionary }) : data
      const message = JSON.parse(text.toString()) as StreamMessage & { payload?: StreamMessage } // shapes are asserted by the tests
      this.messages.push(message.payload ?? message)
      this.#look()
    })
    this.closed = new Promise((resolve) =>
      socket.on('close', (code, reason) => {
        resolve((this.#ended = { code, reason: reason.toString() }))
        this.#look()
      }),
    )
  }

  /** The connection has ended. */
  get isClosed(): boolean {
    return this.#ended !== undefined
  }

  /** Connects. Rejects with the HTTP status and body when the server refuses. */
  static async open(
    url: string,
    query: EventQuery | URLSearchParams = {},
    protocol?: string,
    headers: Record<string, string> = {},
  ): Promise<EventReader> {
    const search = query instanceof URLSearchParams ? query : searchOf(query)
    const socket = new WebSocket(
      `${url.replace(/^http/, 'ws')}/xrpc/network.social.stream.subscribeEvents?${search.toString()}`,
      protocol ?? [],
      { headers },
    )
    const reader = new EventReader(
      socket,
      query instanceof URLSearchParams ? undefined : query.zstdDictionary?.bytes,
    )
    await new Promise<void>((resolve, reject) => {
      socket.on('open', resolve)
      socket.on('error', reject)
      socket.on('unexpected-response', (_request, response) => {
        let body = ''
        response.on('data', (chunk: Buffer) => (body += chunk.toString()))
        response.on('end', () =>
          reject(new RefusedError(response.statusCode ?? 0, JSON.parse(body) as RefusedError['body'])),
        )
      })
    })
    return reader
  }

  get seqs(): number[] {
    return this.messages.flatMap(({ seq }) => seq ?? [])
  }

  /** Resolves when the condition holds, now or after some message or the end. Rejects when it does not hold in time. */
  async until(isMet: () => boolean): Promise<void> {
    if (isMet()) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ isMet, resolve })
    await inTime(promise, () => this.#seen())
  }

  #look(): void {
    for (const waiting of this.#waiting) if (waiting.isMet()) waiting.resolve()
  }

  /** What came so far, in brief. */
  #seen(): object {
    const last = this.messages.slice(-8).map(({ $type, seq, did, collection, rkey, error, name }) => {
      return [$type, seq, did, collection, rkey, error, name].filter((each) => each !== undefined)
    })
    return { messages: this.messages.length, closed: this.#ended, last }
  }

  close(): void {
    this.socket.terminate()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/** The server answered the handshake with an error. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
  readonly status: number
  readonly body: { error: string; message: string }
  constructor(status: number, body: { error: string; message: string }) {
    super(body.message)
    this.status = status
    this.body = body
  }
}

function searchOf({
  cursor,
  maxMessageSizeBytes,
  progress,
  zstdDictionary,
  ...lists
}: EventQuery): URLSearchParams {
  const search = new URLSearchParams()
  if (cursor !== undefined) search.set('cursor', String(cursor))
  if (progress !== undefined) search.set('progress', String(progress))
  if (maxMessageSizeBytes !== undefined) search.set('maxMessageSizeBytes', String(maxMessageSizeBytes))
  if (zstdDictionary !== undefined) search.set('zstdDictionary', String(zstdDictionary.id))
  for (const [name, values] of Object.entries(lists))
    for (const value of values ?? []) search.append(name, value)
  return search
}
