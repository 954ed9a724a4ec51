import { StreamError } from './errors.ts'
import { openRequest, type Server } from './http.ts'

/**
 * Asks plainly for what a browser could not open as a WebSocket, because it tells nobody why not. Returns the error when the
 * server is away or busy, or when it says that the cursor is too old; undefined when it is there and says something else.
 */
export async function hiddenRefusal(
  server: Server,
  subscribeUrl: string,
  signal: AbortSignal,
): Promise<StreamError | undefined> {
  try {
    // The key is not for this method, and with it a browser asks twice.
    const response = await openRequest(
      { ...server, apiKey: undefined },
      subscribeUrl.replace(/^ws/, 'http'),
      {
        signal,
      },
    )
    await response.discard()
  } catch (error) {
    if (!(error instanceof StreamError)) throw error
    return error.retryable || error.code === 'CursorTooOld' ? error : undefined
  }
  return undefined
}
