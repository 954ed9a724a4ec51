import { zstdDecompressSync } from 'node:zlib'
import { inTime } from '@tributary/testkit'
import { WebSocket } from 'ws'

export interface V1Message {
  did: string
  time_us: number
  cursor: number
  kind: 'commit' | 'identity' | 'account'
  commit?: { operation: string; collection: string; rkey: string; cid?: string; record?: unknown }
}

/** A reader of `/subscribe` that keeps what it gets. */
export class V1Reader implements Disposable {
  readonly messages: V1Message[] = []
  readonly socket: WebSocket
  readonly #closed: Promise<{ code: number; reason: string }>
  #look = (): void => {}

  private constructor(socket: WebSocket, dictionary?: Uint8Array) {
    this.socket = socket
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary !== (dictionary !== undefined)) throw new Error('a message has the wrong type')
      const text = dictionary ? zstdDecompressSync(data, { dictionary }) : data
      this.messages.push(JSON.parse(text.toString()) as V1Message) // shapes are asserted by the tests
      this.#look()
    })
    this.#closed = new Promise((resolve) =>
      socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() })),
    )
  }

  /** Connects. Rejects with status, type and text when the server refuses. */
  static async open(
    url: string,
    query: Record<string, string | number | readonly string[]> = {},
    { dictionary, headers = {} }: { dictionary?: Uint8Array; headers?: Record<string, string> } = {},
  ): Promise<V1Reader> {
    const search = new URLSearchParams()
    for (const [name, value] of Object.entries(query))
      for (const each of Array.isArray(value) ? value : [value]) search.append(name, String(each))
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/subscribe?${search.toString()}`, { headers })
    const reader = new V1Reader(socket, dictionary)
    await new Promise<void>((resolve, reject) => {
      socket.on('open', resolve)
      socket.on('error', reject)
      socket.on('unexpected-response', (_request, response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('end', () =>
          reject(new Error(`${response.statusCode} ${response.headers['content-type']} ${text}`)),
        )
      })
    })
    return reader
  }

  get cursors(): number[] {
    return this.messages.map(({ cursor }) => cursor)
  }

  update(payload: object): void {
    this.socket.send(JSON.stringify({ type: 'options_update', payload }))
  }

  /** Waits until a message with this cursor has come. */
  async through(cursor: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#look = () => void ((this.cursors.at(-1) ?? 0) >= cursor && resolve())
    this.#look()
    await inTime(promise, () => this.cursors)
  }

  /** Waits for the close frame. */
  async ended(): Promise<{ code: number; reason: string }> {
    return await inTime(this.#closed, () => this.cursors)
  }

  [Symbol.dispose](): void {
    this.socket.terminate()
  }
}
