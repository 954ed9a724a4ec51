import { socketOptions } from '@tributary/identity'
import { type RawData, WebSocket } from 'ws'

const handshakeTimeoutMs = 20_000
/** Some 4,000 labels. Labelers send few at a time. */
const messageBytesMax = 1024 * 1024
/** What waits to be dealt with before the socket is not read any further. */
const waitingMax = { messages: 256, bytes: messageBytesMax }
/** A labeler that answers no ping for two rounds is taken for gone; one that has nothing to say is not. */
const pingEveryMs = 30_000

export interface LabelSocketOptions {
  allowedPrivateHosts: readonly string[]
  signal: AbortSignal
  onOpen: () => void
}

/** The connection could not be opened or ended. */
export class LabelSocketError extends Error {
  override readonly name = 'LabelSocketError'
}

/**
 * The messages of one subscription, in order, read no faster than they are taken. Ends when the signal aborts.
 * @throws LabelSocketError when the connection ends otherwise; FetchError for an address that must not be dialled.
 */
export async function* openLabelSocket(
  url: string,
  options: LabelSocketOptions,
): AsyncGenerator<Uint8Array, void> {
  const { signal, allowedPrivateHosts, onOpen } = options
  const socket = new WebSocket(url, {
    perMessageDeflate: false,
    maxPayload: messageBytesMax,
    handshakeTimeout: handshakeTimeoutMs,
    ...socketOptions(url, { allowedPrivateHosts }),
  })
  const waiting: Uint8Array[] = []
  let waitingBytes = 0
  let ended: LabelSocketError | undefined
  let failure = ''
  let changed = Promise.withResolvers<void>()
  const notify = (): void => changed.resolve()

  let isAlive = true
  const pings = setInterval(() => {
    if (socket.readyState !== WebSocket.OPEN) return
    // While we read nothing we cannot hear it.
    if (!isAlive && !socket.isPaused) {
      failure = 'it answers no pings'
      socket.terminate()
    }
    isAlive = false
    socket.ping()
  }, pingEveryMs)
  const heard = (): void => {
    isAlive = true
  }

  socket.on('open', onOpen)
  socket.on('pong', heard)
  socket.on('ping', heard)
  socket.on('message', (data: RawData) => {
    heard()
    const bytes = bytesOf(data)
    waiting.push(bytes)
    waitingBytes += bytes.length
    if (waiting.length >= waitingMax.messages || waitingBytes >= waitingMax.bytes) socket.pause()
    notify()
  })
  socket.on('error', (error) => {
    failure ||= error.message
  })
  socket.on('close', (code, reason) => {
    ended = new LabelSocketError(`the connection ended with ${code} ${reason.toString() || failure}`)
    notify()
  })
  signal.addEventListener('abort', notify)

  try {
    while (!signal.aborted) {
      const message = waiting.shift()
      if (message !== undefined) {
        waitingBytes -= message.length
        if (waiting.length === 0 && socket.isPaused) socket.resume()
        yield message
      } else if (ended !== undefined) {
        throw ended
      } else {
        changed = Promise.withResolvers<void>()
        await changed.promise
      }
    }
  } finally {
    clearInterval(pings)
    signal.removeEventListener('abort', notify)
    socket.terminate()
  }
}

function bytesOf(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data)
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data
}
