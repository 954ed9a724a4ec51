import { StreamError } from './errors.ts'
import { openRequest, readJson, type Server } from './http.ts'
import { isObject } from './json.ts'

const answerBytesMax = 64 * 1024

/**
 * The newest seq of the server, from its `/ready`, which the contract of Jetstream v2 does not have. Undefined when the
 * server answers something else.
 * @throws StreamError `Unreachable` or `ServiceUnavailable`.
 */
export async function readHead(server: Server, signal: AbortSignal): Promise<number | undefined> {
  try {
    const response = await openRequest(server, `${server.url}/ready`, { signal })
    const body = await readJson(response, answerBytesMax)
    const seq = isObject(body) ? body['headSeq'] : undefined
    return typeof seq === 'number' && Number.isSafeInteger(seq) && seq >= 0 ? seq : undefined
  } catch (error) {
    if (error instanceof StreamError && !error.retryable) return undefined
    throw error
  }
}
