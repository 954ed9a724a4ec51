/** `getZstdDictionary`: what a reader of compressed messages needs once. It needs no key. */
import { CallerRate, type QueryContext, XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { EventDictionary } from '../delivery/event-dictionary.ts'
import { sendBytes } from './send-bytes.ts'

/** Requests of one network. A reader keeps what it got, by its id. */
const requestsPerMinuteMax = 600
/** The bytes of a dictionary never change, whichever file they lie in. */
const modifiedAtMs = Date.UTC(2026, 10, 23)

/** Adds the method to a server, on request under its Jetstream v2 name, too. */
export function serveDictionary(
  server: XrpcServer,
  { dictionary: { id, bytes }, isCompatible }: { dictionary: EventDictionary; isCompatible: boolean },
): void {
  const rate = new CallerRate(requestsPerMinuteMax)
  const getZstdDictionary = (context: QueryContext<{ id?: number }>): unknown => {
    const { params, request, reply } = context
    rate.take(server.clientAddressOf(request.raw))
    if (params.id !== undefined && params.id !== id)
      throw new XrpcError(404, 'DictionaryNotFound', `This server has dictionary ${id}, and no other`)
    reply.header('X-Zstd-Dictionary-Id', id)
    return sendBytes(context, {
      size: bytes.length,
      etag: `"zstd-dict-${id}"`,
      modifiedAtMs,
      cacheControl: 'public, max-age=31536000, immutable',
      read: async function* (start, end) {
        yield bytes.subarray(start, end)
      },
    })
  }
  const prefixes = ['network.social.stream', ...(isCompatible ? ['network.bsky.jetstream'] : [])]
  for (const prefix of prefixes)
    server.query(`${prefix}.getZstdDictionary`, getZstdDictionary, { methods: ['GET', 'HEAD'] })
}
