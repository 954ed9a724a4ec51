import { decodeFrame } from '@tributary/protocol'
import type { SeenWrite } from './write-log.ts'

export interface RelayCommit {
  did: string
  rev: string
  /** When the PDS made it. */
  timeMs: number
  writes: SeenWrite[]
}

export interface RelayReaderOptions {
  url: string
  /** Every frame counts as an event; commits are given out. */
  onEvent: (commit: RelayCommit | undefined) => void
  /** The connection ended otherwise than by `close`. */
  onEnd: (reason: string) => void
}

/** A raw consumer of the relay's firehose, from its oldest event on: plain frames, plain decoding, no client library. */
export class RelayReader implements Disposable {
  readonly #socket: WebSocket
  #isClosed = false

  constructor({ url, onEvent, onEnd }: RelayReaderOptions) {
    const address = `${url.replace(/^http/, 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`
    this.#socket = new WebSocket(address)
    this.#socket.binaryType = 'arraybuffer'
    this.#socket.addEventListener('message', ({ data }: { data: ArrayBuffer }) => {
      const { t, body } = decodeFrame(new Uint8Array(data))
      onEvent(t === '#commit' ? readCommit(body) : undefined)
    })
    this.#socket.addEventListener('close', ({ code, reason }) => {
      if (!this.#isClosed) onEnd(`the relay closed the firehose with ${code} ${reason}`)
    })
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#socket.close()
  }
}

function readCommit(body: Record<string, unknown>): RelayCommit {
  // The relay has verified the commit, and the lexicon of the method says what is in it.
  const { repo, rev, time, ops } = body as {
    repo: string
    rev: string
    time: string
    ops: { action: SeenWrite['action']; path: string; cid: { $link: string } | null }[]
  }
  const writes = ops.map(({ action, path, cid }) => {
    const [collection = '', rkey = ''] = path.split('/')
    return { action, collection, rkey, ...(cid && { cid: cid.$link }) }
  })
  return { did: repo, rev, timeMs: Date.parse(time), writes }
}
