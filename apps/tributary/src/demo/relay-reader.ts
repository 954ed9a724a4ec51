/** A raw consumer of the relay's firehose: plain frames and plain decoding, no client library of ours. */
import { decodeFrame } from '@tributary/protocol'
import type { SeenWrite } from './write-log.ts'
import { pauseUnless } from './pause.ts'

export interface RelayCommit {
  did: string
  rev: string
  /** When the PDS made it. */
  timeMs: number
  writes: SeenWrite[]
}

export interface RelayReaderOptions {
  url: string
  /** Called for every event of every type; only commits come with their contents. */
  onEvent: (commit: RelayCommit | undefined) => void
  signal: AbortSignal
}

const reconnectMs = 300

/** Reads from the oldest event on, over as many connections as it takes, until the signal aborts. */
export async function followRelay({ url, onEvent, signal }: RelayReaderOptions): Promise<void> {
  let cursor = 0
  while (!signal.aborted) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const address = `${url.replace(/^http/, 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=${cursor}`
    const socket = new WebSocket(address)
    socket.binaryType = 'arraybuffer'
    socket.addEventListener('message', ({ data }: { data: ArrayBuffer }) => {
      const { t, body } = decodeFrame(new Uint8Array(data))
      const { seq } = body
      if (typeof seq === 'number') cursor = seq
      onEvent(t === '#commit' ? readCommit(body) : undefined)
    })
    socket.addEventListener('close', () => resolve())
    signal.addEventListener('abort', () => resolve(), { once: true })
    await promise
    socket.close()
    await pauseUnless(signal, reconnectMs)
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
