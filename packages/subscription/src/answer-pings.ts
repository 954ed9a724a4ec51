import type { WebSocket } from 'ws'

/** Pings within this time get one answer, to the latest, as the protocol allows. */
const answerEveryMs = 100

/**
 * Answers the pings of the other side, the first at once. A flood of them costs little, and at most one answer waits to
 * be sent, also when the other side does not read.
 */
export function answerPings(webSocket: WebSocket): void {
  let latest: Buffer | undefined
  let timer: NodeJS.Timeout | undefined
  let isUnsent = false
  let answeredMs = 0
  const answer = (): void => {
    timer = undefined
    if (isUnsent || latest === undefined) return
    isUnsent = true
    answeredMs = Date.now()
    webSocket.pong(latest, true, () => (isUnsent = false))
    latest = undefined
  }
  webSocket.on('ping', (data: Buffer) => {
    latest = data
    if (timer) return
    if (Date.now() - answeredMs > answerEveryMs) answer()
    else timer = setTimeout(answer, answerEveryMs).unref()
  })
  webSocket.on('close', () => clearTimeout(timer))
}
