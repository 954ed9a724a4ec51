/**
 * One connection to the live stream, from connecting to its end, read by pulling. What arrives while the consumer is
 * busy is held up to a bound; above it the socket is paused, or closed where that is impossible, and the caller comes
 * back with its cursor. Nothing that was received is lost: the end is reported after the last message.
 */
import { deferred } from './deferred.ts'
import type { LiveSocket, SocketEnd, SocketHandlers } from './socket.ts'

/** Characters of text held before reading pauses, and messages given out at a time. */
const heldCharsMax = 4 * 1024 * 1024
/** What holding a message costs besides its text, in characters, so that empty ones are bounded too. */
const charsPerMessage = 64
const takeMessagesMax = 1000

export type SessionEnd =
  | { cause: 'closed'; wasOpen: boolean; end: SocketEnd }
  | { cause: 'idle'; wasOpen: boolean }
  | { cause: 'consumer-busy'; wasOpen: boolean }

export interface SessionOptions {
  open: (handlers: SocketHandlers) => LiveSocket
  idleLimitMs: number
  onOpen: () => void
  signal: AbortSignal
}

/** The messages of one connection in batches, then why it ended. Leaving the loop or aborting closes it. */
export async function* readSession(
  options: SessionOptions,
): AsyncGenerator<string[], SessionEnd | undefined> {
  const { signal, idleLimitMs } = options
  let held: string[] = []
  let heldChars = 0
  let wasOpen = false
  let paused = false
  let heard = true
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

  const socket = options.open({
    opened: () => {
      wasOpen = true
      heard = true
      options.onOpen()
    },
    alive: () => {
      heard = true
    },
    message: (text) => {
      if (ended) return
      heard = true
      held.push(text)
      heldChars += text.length + charsPerMessage
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
        const batch = held.splice(0, takeMessagesMax)
        for (const text of batch) heldChars -= text.length + charsPerMessage
        yield batch
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
    signal.removeEventListener('abort', announce)
    held = []
    socket.close()
  }
}
