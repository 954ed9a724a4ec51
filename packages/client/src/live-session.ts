/**
 * One connection to the live stream, from connecting to its end, read by pulling. What arrives while the consumer is
 * busy is held up to a bound; above it the socket is paused, or closed where that is impossible, and the caller comes
 * back with its cursor. Nothing that was received is lost: the end is reported after the last message.
 */
import { deferred } from './deferred.ts'
import { type LiveSocket, messageBytesMax, type SocketEnd, type SocketHandlers } from './socket.ts'

/** Characters of text held before reading pauses, and messages given out at a time. */
const heldCharsMax = 4 * 1024 * 1024
/** What holding a message costs besides its text, in characters, so that empty ones are bounded too. */
const charsPerMessage = 64
const takeMessagesMax = 1000
/** Longer timers end at once. */
const timerMsMax = 2 ** 31 - 1

export type SessionEnd =
  | { cause: 'closed'; wasOpen: boolean; end: SocketEnd }
  | { cause: 'idle'; wasOpen: boolean }
  | { cause: 'silent'; wasOpen: boolean }
  | { cause: 'undecodable'; wasOpen: boolean; detail: string }
  | { cause: 'consumer-busy'; wasOpen: boolean }

export interface SessionOptions {
  open: (handlers: SocketHandlers) => LiveSocket
  idleLimitMs: number
  /** Milliseconds that the handshake may take. Default: what the socket allows. */
  openLimitMs?: number
  /** Milliseconds without a message, be there pings or not: up to twice as long. Default: none is too long. */
  silenceLimitMs?: number
  /** The text of a binary message; what it throws ends the session. Default: there is none in it. */
  readBinary?: ((message: Uint8Array) => string) | undefined
  onOpen: () => void
  signal: AbortSignal
}

/** The messages of one connection in batches, then why it ended. Leaving the loop or aborting closes it. */
export async function* readSession(
  options: SessionOptions,
): AsyncGenerator<string[], SessionEnd | undefined> {
  const {
    signal,
    idleLimitMs,
    openLimitMs = Infinity,
    silenceLimitMs = Infinity,
    readBinary = () => '',
  } = options
  let held: (string | Uint8Array)[] = []
  let heldChars = 0
  let wasOpen = false
  let paused = false
  let heard = true
  let spoke = true
  let ended: SessionEnd | undefined
  let changed = deferred()
  const announce = (): void => changed.resolve()

  const end = (sessionEnd: SessionEnd): void => {
    ended ??= sessionEnd
    announce()
  }
  // Silence of a socket that we paused says nothing about the server.
  const idle = setInterval(() => {
    if (paused || heard) heard = false
    else end({ cause: 'idle', wasOpen })
  }, idleLimitMs)
  const silent =
    silenceLimitMs > timerMsMax
      ? undefined
      : setInterval(() => {
          if (paused || held.length > 0 || spoke) spoke = false
          else end({ cause: 'silent', wasOpen })
        }, silenceLimitMs)
  const opening =
    openLimitMs > timerMsMax
      ? undefined
      : setTimeout(() => wasOpen || end({ cause: 'idle', wasOpen }), openLimitMs)

  const socket = options.open({
    opened: () => {
      wasOpen = true
      heard = true
      options.onOpen()
    },
    alive: () => {
      heard = true
    },
    message: (data) => {
      if (ended) return
      heard = true
      if (data.length > messageBytesMax) {
        end({ cause: 'closed', wasOpen, end: { code: 1009, reason: '', isOversized: true } })
        return socket.close()
      }
      spoke = true
      held.push(data)
      heldChars += data.length + charsPerMessage
      if (heldChars > heldCharsMax && !paused) pause()
      announce()
    },
    closed: (socketEnd) => end({ cause: 'closed', wasOpen, end: socketEnd }),
  })
  const pause = (): void => {
    paused = true
    if (socket.flow) return socket.flow.pause()
    end({ cause: 'consumer-busy', wasOpen })
    socket.close()
  }
  signal.addEventListener('abort', announce, { once: true })

  try {
    while (!signal.aborted) {
      if (held.length > 0) {
        const { batch, count, fault } = readBatch(held, readBinary)
        for (const data of held.splice(0, count)) heldChars -= data.length + charsPerMessage
        if (batch.length > 0) yield batch
        if (fault) return { cause: 'undecodable', wasOpen, detail: fault.message }
      } else if (ended) {
        return ended
      } else {
        if (paused) {
          paused = false
          socket.flow?.resume()
        }
        changed = deferred()
        await changed.promise
      }
    }
    return undefined
  } finally {
    clearInterval(idle)
    clearInterval(silent)
    clearTimeout(opening)
    signal.removeEventListener('abort', announce)
    held = []
    socket.close()
  }
}

/**
 * The text of the messages that are given out next. Binary ones are read here and not when they come, because their text
 * may be a thousand times as long.
 */
function readBatch(
  held: readonly (string | Uint8Array)[],
  readBinary: (message: Uint8Array) => string,
): { batch: string[]; count: number; fault?: Error } {
  const batch: string[] = []
  let chars = 0
  for (const data of held) {
    if (batch.length >= takeMessagesMax || chars > heldCharsMax) break
    let text: string
    try {
      text = typeof data === 'string' ? data : readBinary(data)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      return { batch, count: batch.length, fault: error }
    }
    batch.push(text)
    chars += text.length
  }
  return { batch, count: batch.length }
}
