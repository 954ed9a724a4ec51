/**
 * Requests to hosts that the network names: bounded in time, size and redirects, and never to a private address unless
 * the operator allowed that host. No redirect of another host leads there, though. The address is checked where it is
 * dialled, so a name that changes its address in between gains nothing.
 */
import { lookup as dnsLookup } from 'node:dns'
import type { Agent, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import { FetchError } from './fetch-error.ts'
import { isAllowedPrivate, type PrivateHosts } from './host.ts'
import { publicLookup, type NameServers, type PublicLookupOptions } from './public-lookup.ts'
import { readBody, type TakePiece } from './read-body.ts'

// Not imported: a module that imports a value of node:http loads Node's `fetch` with it, 3 MB of memory.
const { request: httpRequest } = process.getBuiltinModule('node:http')

export interface SafeFetchOptions extends PrivateHosts, NameServers {
  /** Bytes of the body, beyond which the request fails. Default 1 MB. */
  bytesMax?: number
  /** Milliseconds for everything. Default 5,000. */
  timeoutMs?: number
  /** Redirects that are followed, each checked like the first address. A redirect to another host that is private fails. Default 3. */
  redirectsMax?: number
  headers?: Record<string, string>
  signal?: AbortSignal
  /** Keeps connections for a host that is asked often. Default: a connection of its own for every request. */
  agent?: Agent | false
}

export interface SafeHead {
  status: number
  headers: IncomingHttpHeaders
}

export interface SafeResponse extends SafeHead {
  body: Buffer
}

/** GETs a URL. Any status is an answer. @throws FetchError */
export async function safeFetch(url: string, options: SafeFetchOptions): Promise<SafeResponse> {
  const pieces: Buffer[] = []
  const head = await safeFetchPieces(url, options, (piece) => {
    pieces.push(piece)
    return 'more'
  })
  const [first = Buffer.alloc(0)] = pieces
  return { ...head, body: pieces.length > 1 ? Buffer.concat(pieces) : first }
}

/**
 * GETs a URL whose body is too large to be held. `take` gets the body of the answer, not those of redirects, piece by
 * piece, at most 64 kB at a time; it can end the request when it has enough. All bounds of `safeFetch` hold, and the time
 * that `take` needs counts.
 * @throws FetchError, and whatever `take` throws.
 */
export async function safeFetchPieces(
  url: string,
  options: SafeFetchOptions,
  take: (piece: Buffer, head: SafeHead) => ReturnType<TakePiece>,
): Promise<SafeHead> {
  const { timeoutMs = 5000, bytesMax = 1_000_000, signal } = options
  const ending = new AbortController()
  const late = (): void => ending.abort(new FetchError(`the answer takes more than ${timeoutMs} ms`))
  const end = (): void => ending.abort(signal?.reason)
  const timer = setTimeout(late, timeoutMs)
  if (signal?.aborted) end()
  signal?.addEventListener('abort', end, { once: true })
  try {
    const response = await follow(url, options, ending.signal)
    const head = { status: response.statusCode ?? 0, headers: response.headers }
    await readBody(response, bytesMax, (piece) => take(piece, head))
    return head
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', end)
  }
}

const redirectStatuses = new Set([301, 302, 303, 307, 308])
/** Interim answers (1xx) ahead of the answer. A server could send thousands of them in one packet. */
const interimMax = 10

/** Sends a request, and those to which it is redirected. */
async function follow(url: string, options: SafeFetchOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const { redirectsMax = 3 } = options
  const first = httpUrl(URL.parse(url))
  let target = first
  for (let redirects = 0; ; redirects++) {
    const response = await open(target, { ...options, headers: headersFor(target, first, options) }, signal)
    const { location } = response.headers
    if (location === undefined || !redirectStatuses.has(response.statusCode ?? 0)) return response
    response.destroy()
    if (redirects >= redirectsMax) throw new FetchError(`more than ${redirectsMax} redirects`)
    const next = httpUrl(URL.parse(location, target.href))
    // The operator allowed it for what our services ask of it. Another host could have any path of it asked for.
    if (next.hostname !== target.hostname && isAllowedPrivate(next.host, options))
      throw new FetchError(`a redirect of ${target.host} to a private host`)
    target = next
  }
}

/** @throws FetchError unless it is the address of an HTTP request. */
function httpUrl(url: URL | null): URL {
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return url
  throw new FetchError('not an HTTP address')
}

/** Only the host that was asked gets all headers; one that it redirects to is told what is wanted, and nothing else. */
function headersFor(target: URL, first: URL, { headers = {} }: SafeFetchOptions): Record<string, string> {
  if (target === first || target.origin === first.origin) return headers
  return headers['accept'] === undefined ? {} : { accept: headers['accept'] }
}

/** Sends a request and returns the answer with its body still to come. @throws FetchError */
async function open(url: URL, options: SafeFetchOptions, signal: AbortSignal): Promise<IncomingMessage> {
  try {
    signal.throwIfAborted()
    return await send(url, options, signal)
  } catch (cause) {
    if (cause instanceof FetchError) throw cause
    throw new FetchError(`no answer from ${url.host}`, { cause })
  }
}

function send(url: URL, options: SafeFetchOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const { headers = {}, agent = false } = options
  const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)({
    ...socketOptions(url, { ...options, signal }),
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port,
    path: url.pathname + url.search,
    headers: { accept: '*/*', ...headers },
    agent,
  })
  return new Promise<IncomingMessage>((resolve, reject) => {
    let answer: IncomingMessage | undefined
    let interim = 0
    // Node's own `signal` option costs a fifth of the whole request.
    signal.addEventListener('abort', () => (answer ?? request).destroy(signal.reason as Error), {
      once: true,
    }) // as `ending` has it
    request.on('information', () => {
      if (++interim > interimMax) request.destroy(new FetchError('too many interim answers'))
    })
    request.on('response', (response) => resolve((answer = response)))
    request.on('error', (error) => {
      // A kept connection may have been closed from the other side just as it was used again.
      const isStale = request.reusedSocket && 'code' in error && error.code === 'ECONNRESET'
      if (isStale && !answer && !signal.aborted) resolve(send(url, { ...options, agent: false }, signal))
      else reject(error)
    })
    // Node tells by nothing else of an answer that changes the protocol. After an error, this does nothing.
    request.on('close', () => answer ?? reject(new FetchError('the connection closed without an answer')))
    request.end()
  })
}

export interface SocketOptions {
  lookup: LookupFunction
  autoSelectFamilyAttemptTimeout: number
  /** With TLS. */
  secureContext?: SecureContext
}

/** One for all connections: making it takes longer than all else of a request whose host cannot be found. */
let commonContext: SecureContext | undefined

/** How long one address may take before the next is tried. Node's quarter of a second is less than a way around the world. */
const addressMs = 1500

/**
 * Options for a socket to a URL that the network named: for HTTP requests and WebSocket clients. Allowed private hosts
 * are looked up as the system does, hosts file included. Everything else is asked of the name servers alone, so a name
 * that only the hosts file knows is found only when it is allowed.
 * @throws FetchError when the URL alone tells that it must not be dialled.
 */
export function socketOptions(url: string | URL, options: PrivateHosts & PublicLookupOptions): SocketOptions {
  const parsed = typeof url === 'string' ? URL.parse(url) : url
  if (!parsed || !/^(https?|wss?):$/.test(parsed.protocol))
    throw new FetchError('not an HTTP or WebSocket address')
  const isSecure = parsed.protocol === 'https:' || parsed.protocol === 'wss:'
  const common = {
    autoSelectFamilyAttemptTimeout: addressMs,
    ...(isSecure && { secureContext: (commonContext ??= createSecureContext()) }),
  }
  if (isAllowedPrivate(parsed.host.toLowerCase(), options)) return { ...common, lookup: dnsLookup }
  if (!isSecure) throw new FetchError('TLS is required')
  if (parsed.port !== '') throw new FetchError('only the usual port is allowed')
  // A literal address is dialled without a look-up.
  if (isIP(parsed.hostname.replace(/^\[|\]$/g, '')) > 0) throw new FetchError('an address is not a host name')
  return { ...common, lookup: publicLookup(options) }
}
