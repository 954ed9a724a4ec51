/**
 * Downloads one whole segment as a sequence of byte chunks, in ranges of `partBytes` of which several are under way
 * at a time (segment-format.md 13). Every chunk is of one generation of the file: parts after the first carry
 * `If-Range`, and a file that changes meanwhile ends the sequence with `Rewritten`. The caller plans again and goes
 * on from what it has.
 */
import { StreamError } from './errors.ts'
import { callXrpc, type Server, type XrpcResponse } from './http.ts'
import { readAhead } from './read-ahead.ts'

/** Larger files are refused. */
const segmentBytesMax = 1024 ** 3

export interface DownloadLimits {
  /** Bytes of one range request. */
  partBytes: number
  /** Requests under way at a time, and so how many parts or compressed blocks are held in memory. */
  parallel: number
}

interface Part {
  bytes: Promise<Uint8Array>
}

/**
 * The bytes of a segment from its start. Stop reading where the blocks end: the rest is not fetched.
 * @throws StreamError
 */
export async function* segmentChunks(
  server: Server,
  name: string,
  limits: DownloadLimits,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const stop = new AbortController()
  const both = AbortSignal.any([signal, stop.signal])
  const parts = readAhead(requestParts(server, name, limits, both), { items: limits.parallel }, stop)
  for await (const part of parts) yield await part.bytes
}

async function* requestParts(
  server: Server,
  name: string,
  { partBytes }: DownloadLimits,
  signal: AbortSignal,
): AsyncGenerator<Part, void> {
  const get = (headers: Record<string, string>, accept: number[] = []): Promise<XrpcResponse> =>
    callXrpc(server, { method: 'getSegment', params: { name }, headers, accept, signal })

  let first = await get({ range: `bytes=0-${partBytes - 1}` })
  const etag = first.headers.get('etag')
  // Without a strong ETag the parts could not be told to belong together.
  if (first.status === 206 && (etag === null || etag.startsWith('W/'))) {
    await first.discard()
    first = await get({})
  }
  if (first.status !== 206 || etag === null) {
    yield* wholeBody(first)
    return
  }

  const total = totalBytes(first.headers)
  yield held(readPart(first, Math.min(partBytes, total)))
  for (let start = partBytes; start < total; start += partBytes) {
    const end = Math.min(start + partBytes, total)
    const headers = { range: `bytes=${start}-${end - 1}`, 'if-range': etag }
    const fetchPart = async (): Promise<Uint8Array> => {
      const response = await get(headers, [416])
      if (response.status !== 206 || response.headers.get('etag') !== etag) {
        await response.discard()
        throw new StreamError('Rewritten', `${name} was rewritten while it was downloaded`)
      }
      return readPart(response, end - start)
    }
    yield held(fetchPart())
  }
}

async function* wholeBody(response: XrpcResponse): AsyncGenerator<Part, void> {
  let bytes = 0
  for await (const chunk of response.chunks()) {
    bytes += chunk.length
    if (bytes > segmentBytesMax) throw new StreamError('ProtocolError', 'a segment is larger than 1 GiB')
    yield { bytes: Promise.resolve(chunk) }
  }
}

/** A failure is met when the part's turn comes; until then it must not count as unhandled. */
function held(bytes: Promise<Uint8Array>): Part {
  bytes.catch(() => undefined)
  return { bytes }
}

/** Its length is known, so that it is held once: what comes is copied to its place. */
async function readPart(response: XrpcResponse, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  let filled = 0
  for await (const chunk of response.chunks()) {
    if (filled + chunk.length > length)
      throw new StreamError('ProtocolError', `the server sent more than ${length} bytes`)
    bytes.set(chunk, filled)
    filled += chunk.length
  }
  if (filled !== length) throw new StreamError('Unreachable', 'a part ended early')
  return bytes
}

function totalBytes(headers: Headers): number {
  const total = Number(/^bytes \d+-\d+\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1])
  if (!Number.isSafeInteger(total) || total < 1)
    throw new StreamError('ProtocolError', 'a part has no content-range')
  if (total > segmentBytesMax) throw new StreamError('ProtocolError', 'a segment is larger than 1 GiB')
  return total
}
