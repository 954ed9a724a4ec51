/**
 * Requests to hosts that the network names: bounded in time, size and redirects, and never to a private address unless
 * the operator allowed that host. The address is checked where it is dialled, so a name that changes its address in
 * between gains nothing.
 */
import { lookup as dnsLookup, type LookupAddress, type LookupOptions } from 'node:dns'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { isAllowedPrivate, type PrivateHosts } from './host.ts'
import { isPublicAddress } from './public-address.ts'

/** A request could not be made or answered within its bounds. */
export class FetchError extends Error {
  override readonly name = 'FetchError'
}

export interface SafeFetchOptions extends PrivateHosts {
  /** Bytes of the body, beyond which the request fails. Default 1 MB. */
  bytesMax?: number
  /** Milliseconds for everything. Default 5,000. */
  timeoutMs?: number
  /** Redirects that are followed, each checked like the first address. Default 3. */
  redirectsMax?: number
  headers?: Record<string, string>
  signal?: AbortSignal
}

export interface SafeResponse {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

/** GETs a URL. Any status is an answer. @throws FetchError */
export async function safeFetch(url: string, options: SafeFetchOptions): Promise<SafeResponse> {
  const { timeoutMs = 5000, redirectsMax = 3 } = options
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout
  let target = url
  for (let redirects = 0; ; redirects++) {
    const response = await fetchOnce(target, options, signal)
    const { location } = response.headers
    if (
      response.status < 300 ||
      response.status > 399 ||
      response.status === 304 ||
      typeof location !== 'string'
    )
      return response
    if (redirects >= redirectsMax) throw new FetchError(`more than ${redirectsMax} redirects`)
    target = URL.parse(location, target)?.href ?? ''
  }
}

async function fetchOnce(url: string, options: SafeFetchOptions, signal: AbortSignal): Promise<SafeResponse> {
  const { lookup } = socketOptions(url, options)
  const { bytesMax = 1_000_000, headers = {} } = options
  const send = url.startsWith('https:') ? httpsRequest : httpRequest
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      send(url, { lookup, signal, headers: { accept: '*/*', ...headers }, agent: false }, resolve)
        .on('error', reject)
        .end()
    })
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > bytesMax) throw new FetchError(`the answer has more than ${bytesMax} bytes`)
      chunks.push(chunk)
    }
    return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
  } catch (cause) {
    if (cause instanceof FetchError) throw cause
    throw new FetchError(`no answer from ${URL.parse(url)?.host ?? 'an invalid address'}`, { cause })
  }
}

/**
 * Options for a socket to a URL that the network named: for HTTP requests and WebSocket clients.
 * @throws FetchError when the URL alone tells that it must not be dialled.
 */
export function socketOptions(url: string, options: PrivateHosts): { lookup: LookupFunction } {
  const parsed = URL.parse(url)
  if (!parsed || !/^(https?|wss?):$/.test(parsed.protocol))
    throw new FetchError('not an HTTP or WebSocket address')
  if (isAllowedPrivate(parsed.host.toLowerCase(), options)) return { lookup: dnsLookup as LookupFunction } // Node's own default
  if (parsed.protocol === 'http:' || parsed.protocol === 'ws:') throw new FetchError('TLS is required')
  if (parsed.port !== '') throw new FetchError('only the usual port is allowed')
  // A literal address is dialled without a look-up.
  if (isIP(parsed.hostname.replace(/^\[|\]$/g, '')) > 0) throw new FetchError('an address is not a host name')
  return { lookup: publicLookup }
}

/** Node's look-up, refusing names that have any private address. */
const publicLookup: LookupFunction = (hostname, options: LookupOptions, callback) => {
  dnsLookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    if (error) return callback(error, '')
    const [first] = addresses
    const refused = addresses.find(({ address }) => !isPublicAddress(address))
    if (refused || !first) return callback(new FetchError(`${hostname} has a private address`), '')
    if (options.all) callback(null, addresses)
    else callback(null, first.address, first.family)
  })
}
