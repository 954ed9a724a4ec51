import { decodeFrame, type Frame } from '@tributary/protocol'
import { inTime } from '@tributary/testkit'
import { WebSocket } from 'ws'

export interface SeenOp {
  action: string
  collection: string
  rkey: string
  cid?: string
}

/** A plain consumer of a relay: keeps every frame, and lets a test wait until something has been seen. */
export class FirehoseReader implements Disposable {
  readonly frames: Frame[] = []
  /** The bytes of each frame. */
  readonly messages: Buffer[] = []
  /** When each frame came, in milliseconds since 1970. */
  readonly arrivedMs: number[] = []
  readonly #socket: WebSocket
  readonly #ops = new Map<string, SeenOp[]>()
  readonly #waiting = new Set<() => void>()
  /** Resolves when the relay has it as a consumer: without a cursor, what comes before that is not for it. */
  readonly opened: Promise<void>
  closed: { code: number; reason: string } | undefined

  constructor(relayUrl: string, cursor?: number) {
    const query = cursor === undefined ? '' : `?cursor=${cursor}`
    this.#socket = new WebSocket(
      `${relayUrl.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos${query}`,
    )
    this.#socket.on('message', (data: Buffer) => {
      const frame = decodeFrame(data)
      this.messages.push(data)
      this.frames.push(frame)
      this.arrivedMs.push(Date.now())
      if (frame.t === '#commit') this.#noteOps(frame)
      for (const check of this.#waiting) check()
    })
    this.opened = new Promise((resolve) => this.#socket.on('open', resolve))
    this.#socket.on('error', () => {})
    this.#socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() }
      for (const check of this.#waiting) check()
    })
  }

  get seqs(): number[] {
    return this.frames.flatMap(({ body }) => (typeof body['seq'] === 'number' ? [body['seq']] : []))
  }

  /**
   * Resolves when the condition holds; it is looked at again after every frame and at the end of the connection.
   * Rejects when it does not hold in time.
   */
  async until(condition: (reader: this) => boolean): Promise<void> {
    if (condition(this)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const check = (): void => {
      if (condition(this)) resolve()
    }
    this.#waiting.add(check)
    await inTime(promise, () => this.#seen()).finally(() => this.#waiting.delete(check))
  }

  /** Operations of one account, in the order in which they came. */
  opsOf(did: string): readonly SeenOp[] {
    return this.#ops.get(did) ?? []
  }

  /** What came so far, in brief. */
  #seen(): object {
    const last = this.frames.slice(-8).map(({ op, t, body }) => {
      const { seq, did, repo, active, status, error } = body
      return [op === -1 ? error : t, seq, repo ?? did, active, status].filter((each) => each !== undefined)
    })
    return { frames: this.frames.length, closed: this.closed, last }
  }

  #noteOps({ body }: Frame): void {
    const did = String(body['repo'])
    const ops = this.#ops.get(did) ?? []
    this.#ops.set(did, ops)
    for (const { action, path, cid } of body['ops'] as {
      action: string
      path: string
      cid: { $link: string } | null
    }[]) {
      // as the lexicon has it
      const [collection = '', rkey = ''] = path.split('/')
      ops.push({ action, collection, rkey, ...(cid ? { cid: cid.$link } : {}) })
    }
  }

  [Symbol.dispose](): void {
    this.#socket.terminate()
  }
}
