import { Readable } from 'node:stream'
import type { RouteContext } from '@tributary/xrpc'
import { XrpcError } from '@tributary/xrpc'

/** Bytes that can be served in parts and kept by caches. */
export interface Servable {
  size: number
  /** Strong, with its quotes. Names the very bytes that `read` gives. */
  etag: string
  modifiedAtMs: number
  cacheControl: string
  /** The bytes from `start` up to `end`, exclusive. Ending the loop ends the read. */
  read(start: number, end: number): AsyncIterable<Uint8Array>
}

/**
 * Answers with the bytes, or with the part of them that was asked for: `Range`, `If-Range`, `If-None-Match` and
 * `If-Modified-Since` as RFC 9110 has them. A HEAD gets the headers of the whole. Several ranges in one request are answered with everything.
 * @throws XrpcError 416 `InvalidRequest` when the range lies after the end.
 */
export function sendBytes({ request, reply }: RouteContext, bytes: Servable): RouteContext['reply'] {
  const { size, etag } = bytes
  reply.headers({
    ETag: etag,
    'Last-Modified': new Date(bytes.modifiedAtMs).toUTCString(),
    'Accept-Ranges': 'bytes',
    'Cache-Control': bytes.cacheControl,
  })
  const { headers } = request
  if (isUnchanged(headers, bytes)) return reply.status(304).send()

  // A range is of a GET only (RFC 9110, 14.2).
  if (request.method === 'HEAD') {
    return reply.type('application/octet-stream').header('Content-Length', size).send()
  }
  const range = rangeApplies(headers['if-range'], bytes) ? parseRange(headers.range, size) : undefined
  if (range === 'unsatisfiable') {
    throw new XrpcError(416, 'InvalidRequest', `The range lies outside of these ${size} bytes`, {
      'Content-Range': `bytes */${size}`,
      'Cache-Control': 'no-store',
    })
  }
  const { start, end } = range ?? { start: 0, end: size }
  if (range) reply.status(206).header('Content-Range', `bytes ${start}-${end - 1}/${size}`)
  return reply
    .type('application/octet-stream')
    .header('Content-Length', end - start)
    .send(Readable.from(bytes.read(start, end), { objectMode: false }))
}

/** Characters of a list of tags that is looked through. */
const knownTagsMax = 4096

function isUnchanged(headers: RouteContext['request']['headers'], bytes: Servable): boolean {
  const known = headers['if-none-match']
  if (known !== undefined) {
    if (known.trim() === '*') return true
    // What is longer is answered in full: to look through a megabyte would hold up others.
    const tags = known.length > knownTagsMax ? [] : known.split(',')
    return tags.some((tag) => tag.trim().replace(/^W\//, '') === bytes.etag)
  }
  const since = Date.parse(headers['if-modified-since'] ?? '')
  return wholeSeconds(bytes.modifiedAtMs) <= since
}

/** Whether the condition of `If-Range` holds, so that a part may be sent. */
function rangeApplies(ifRange: string | string[] | undefined, bytes: Servable): boolean {
  if (typeof ifRange !== 'string') return true
  return ifRange.trim() === bytes.etag || Date.parse(ifRange) === wholeSeconds(bytes.modifiedAtMs)
}

/** HTTP dates have no fractions of a second. */
function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}

/** A single byte range within `size`; undefined for none, several, or what is no range: all of it is sent then. */
export function parseRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | 'unsatisfiable' | undefined {
  const match = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/.exec(header ?? '')
  if (!match) return undefined
  const [, first = '', last = ''] = match
  if (first === '' && last === '') return undefined
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size }
  }
  const start = Number(first)
  const end = last === '' ? size : Math.min(Number(last) + 1, size)
  if (last !== '' && Number(last) < start) return undefined
  return start < size ? { start, end } : 'unsatisfiable'
}
