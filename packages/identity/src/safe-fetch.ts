/**
 * Requests to hosts that the network names: bounded in time, size and redirects, and never to a private address unless
 * the operator allowed that host. The address is checked where it is dialled, so a name that changes its address in
 * between gains nothing.
 */
import { lookup as dnsLookup } from 'node:dns'
import { request as httpRequest, type Agent, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { FetchError } from './fetch-error.ts'
import { isAllowedPrivate, type PrivateHosts } from './host.ts'
import { publicLookup, type NameServers, type PublicLookupOptions } from './public-lookup.ts'

export interface SafeFetchOptions extends PrivateHosts, NameServers {
  /** Bytes of the body, beyond which the request fails. Default 1 MB. */
  bytesMax?: number
  /** Milliseconds for everything. Default 5,000. */
  timeoutMs?: number
  /** Redirects that are followed, each checked like the first address. Default 3. */
  redirectsMax?: number
  headers?: Record<string, string>
  signal?: AbortSignal
  /** Keeps connections for a host that is asked often. Default: a connection of its own for every request. */
  agent?: Agent | false
}

export interface SafeResponse {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

/** GETs a URL. Any status is an answer. @throws FetchError */
export async function safeFetch(url: string, options: SafeFetchOptions): Promise<SafeResponse> {
  const { timeoutMs = 5000, redirectsMax = 3 } = options
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout
  let target = url
  for (let redirects = 0; ; redirects++) {
    const response = await fetchOnce(
      target,
      { ...options, headers: headersFor(target, url, options) },
      signal,
    )
    const { location } = response.headers
    if (!redirectStatuses.has(response.status) || location === undefined) return response
    if (redirects >= redirectsMax) throw new FetchError(`more than ${redirectsMax} redirects`)
    target = URL.parse(location, target)?.href ?? ''
  }
}

const redirectStatuses = new Set([301, 302, 303, 307, 308])

/** Only the host that was asked gets all headers; one that it redirects to is told what is wanted, and nothing else. */
function headersFor(target: string, url: string, { headers = {} }: SafeFetchOptions): Record<string, string> {
  if (URL.parse(target)?.origin === URL.parse(url)?.origin) return headers
  return headers['accept'] === undefined ? {} : { accept: headers['accept'] }
}

async function fetchOnce(url: string, options: SafeFetchOptions, signal: AbortSignal): Promise<SafeResponse> {
  const { bytesMax = 1_000_000 } = options
  try {
    const response = await open(url, options, signal)
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

/** Sends a request and returns the answer with its body still to come. @throws FetchError before it is sent, else Node's errors. */
function open(url: string, options: SafeFetchOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const socket = socketOptions(url, { ...options, signal })
  const { headers = {}, agent = false } = options
  const send = url.startsWith('https:') ? httpsRequest : httpRequest
  return new Promise<IncomingMessage>((resolve, reject) => {
    const request = send(url, { ...socket, signal, headers: { accept: '*/*', ...headers }, agent }, resolve)
    request.on('error', (error) => {
      // A kept connection may have been closed from the other side just as it was used again.
      if (request.reusedSocket && 'code' in error && error.code === 'ECONNRESET') {
        resolve(open(url, { ...options, agent: false }, signal))
      } else reject(error)
    })
    request.end()
  })
}

export interface SocketOptions {
  lookup: LookupFunction
  autoSelectFamilyAttemptTimeout: number
}

/** How long one address may take before the next is tried. Node's quarter of a second is less than a way around the world. */
const addressMs = 1500

/**
 * Options for a socket to a URL that the network named: for HTTP requests and WebSocket clients. Allowed private hosts
 * are looked up as the system does, hosts file included. Everything else is asked of the name servers alone, so a name
 * that only the hosts file knows is found only when it is allowed.
 * @throws FetchError when the URL alone tells that it must not be dialled.
 */
export function socketOptions(url: string, options: PrivateHosts & PublicLookupOptions): SocketOptions {
  const parsed = URL.parse(url)
  if (!parsed || !/^(https?|wss?):$/.test(parsed.protocol))
    throw new FetchError('not an HTTP or WebSocket address')
  const autoSelectFamilyAttemptTimeout = addressMs
  if (isAllowedPrivate(parsed.host.toLowerCase(), options))
    return { lookup: dnsLookup, autoSelectFamilyAttemptTimeout }
  if (parsed.protocol === 'http:' || parsed.protocol === 'ws:') throw new FetchError('TLS is required')
  if (parsed.port !== '') throw new FetchError('only the usual port is allowed')
  // A literal address is dialled without a look-up.
  if (isIP(parsed.hostname.replace(/^\[|\]$/g, '')) > 0) throw new FetchError('an address is not a host name')
  return { lookup: publicLookup(options), autoSelectFamilyAttemptTimeout }
}
