import { failureText, refusalError, StreamError } from './errors.ts'
import { isObject } from './json.ts'

const errorBytesMax = 16 * 1024

/** Where the XRPC methods of one server are, and how to ask them. */
export interface Server {
  /** Origin, without a trailing slash. */
  readonly url: string
  readonly nsidPrefix: string
  /** The version of Jetstream. A server of version 1 has no methods, and only `/subscribe`. */
  readonly version: 1 | 2
  readonly apiKey: string | undefined
  /** Called as a function of its own: browsers refuse to fetch for another receiver than their window. */
  readonly fetch: typeof fetch
  /** Whether a connection that fails shows its reason as the `cause` of a TypeError, as in Node. */
  readonly failuresHaveCause: boolean
  /** Milliseconds in which next to nothing came, after which a request is given up. */
  readonly stallMs: number
}

export interface XrpcRequest {
  method: string
  params?: Record<string, string>
  /** Makes it a procedure. */
  input?: unknown
  headers?: Record<string, string>
  /** Statuses besides 2xx that the caller handles. */
  accept?: readonly number[]
  signal: AbortSignal
}

/** An answer whose body is still to be read or discarded, once. */
export interface XrpcResponse {
  readonly status: number
  readonly headers: Headers
  /** The body as it arrives. Throws StreamError `Unreachable` when the connection fails or stalls. */
  chunks(): AsyncGenerator<Uint8Array, void>
  /** Ends the transfer. */
  discard(): Promise<void>
}

/**
 * Sends one request.
 * @throws StreamError for every answer outside 2xx and `accept`, and `Unreachable` when there is none. An error of
 * programming, such as a `fetch` that cannot be called, comes out as it is.
 */
export async function callXrpc(server: Server, request: XrpcRequest): Promise<XrpcResponse> {
  const query = new URLSearchParams(request.params).toString()
  const url = `${server.url}/xrpc/${server.nsidPrefix}.${request.method}${query && `?${query}`}`
  return openRequest(server, url, request)
}

/** Sends one request to any address of the server. @throws as `callXrpc`. */
export async function openRequest(
  server: Server,
  url: string,
  request: Omit<XrpcRequest, 'method' | 'params'>,
): Promise<XrpcResponse> {
  const { fetch: send } = server
  const stall = new StallGuard(request.signal, server.stallMs)
  let response: Response
  try {
    response = await send(url, {
      method: request.input === undefined ? 'GET' : 'POST',
      headers: {
        ...(server.apiKey !== undefined && { authorization: `Bearer ${server.apiKey}` }),
        ...(request.input !== undefined && { 'content-type': 'application/json' }),
        ...request.headers,
      },
      ...(request.input !== undefined && { body: JSON.stringify(request.input) }),
      signal: stall.signal,
    })
  } catch (cause) {
    stall.stop()
    if (isProgrammingError(cause, server)) throw cause
    throw unreachable(url, cause)
  }
  const answer: XrpcResponse = {
    status: response.status,
    headers: response.headers,
    chunks: () => readChunks(response, stall, url),
    discard: async () => {
      stall.stop()
      // The connection may have failed already; nothing of it is wanted any more.
      await response.body?.cancel().catch(() => undefined)
    },
  }
  if (response.ok || request.accept?.includes(response.status)) return answer
  throw await readRefusal(answer)
}

/**
 * The whole body.
 * @throws StreamError `ProtocolError` when it is larger than `bytesMax`.
 */
export async function readBody(response: XrpcResponse, bytesMax: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.chunks()) {
    bytes += chunk.length
    if (bytes > bytesMax)
      throw new StreamError('ProtocolError', `the server sent more than ${bytesMax} bytes`)
    parts.push(chunk)
  }
  const [only] = parts
  if (only !== undefined && parts.length === 1) return only
  const body = new Uint8Array(bytes)
  let at = 0
  for (const part of parts) {
    body.set(part, at)
    at += part.length
  }
  return body
}

/** The whole body as JSON. @throws StreamError `ProtocolError` when it is none. */
export async function readJson(response: XrpcResponse, bytesMax: number): Promise<unknown> {
  const body = await readBody(response, bytesMax)
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch (cause) {
    throw new StreamError('ProtocolError', 'the server sent something else than JSON', { cause })
  }
}

async function* readChunks(
  response: Response,
  stall: StallGuard,
  url: string,
): AsyncGenerator<Uint8Array, void> {
  const reader = response.body?.getReader()
  try {
    for (;;) {
      const next = await reader?.read()
      if (next === undefined || next.done) return
      // The consumer's own time does not count as silence of the server.
      stall.pause()
      yield next.value
      stall.goOn(next.value.length)
    }
  } catch (cause) {
    throw unreachable(url, cause)
  } finally {
    stall.stop()
    await reader?.cancel().catch(() => undefined)
  }
}

async function readRefusal(response: XrpcResponse): Promise<StreamError> {
  let body: { error?: string; message?: string } = {}
  try {
    const value = await readJson(response, errorBytesMax)
    if (isObject(value)) body = readErrorBody(value)
  } catch {
    // The status alone says enough.
  }
  const retryAfter = Number(response.headers.get('retry-after'))
  return refusalError(response.status, body, retryAfter > 0 ? { retryAfterMs: retryAfter * 1000 } : {})
}

/** The name and the message of an XRPC error, as far as they are text. */
export function readErrorBody(body: Record<string, unknown>): { error?: string; message?: string } {
  const { error, message } = body
  return { ...(typeof error === 'string' && { error }), ...(typeof message === 'string' && { message }) }
}

/**
 * Whether the error says that the program is wrong, which no other attempt mends. Browsers report a network that fails as a
 * TypeError too, and only its text tells that from others.
 */
function isProgrammingError(error: unknown, { failuresHaveCause }: Server): boolean {
  if (error instanceof TypeError) return failuresHaveCause && error.cause === undefined
  return error instanceof RangeError || error instanceof ReferenceError || error instanceof SyntaxError
}

function unreachable(url: string, cause: unknown): StreamError {
  if (cause instanceof StreamError) return cause
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause
  const detail = inner instanceof Error ? failureText(inner, url) : String(inner)
  return new StreamError('Unreachable', `${new URL(url).origin} did not answer: ${detail}`, { cause })
}

/** Bytes of a body that have to come within `stallMs`: some 270 a second. Servers that send fewer mean no end. */
const stallBytesMin = 16 * 1024

/** Aborts a request when hardly anything arrives for `stallMs`, or when the caller's signal aborts. */
class StallGuard {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #stallMs: number
  readonly #onAbort = (): void => this.#controller.abort(this.#outer.reason)
  #timer: ReturnType<typeof setTimeout> | undefined
  #startedAt = 0
  /** What was left of `stallMs` when the timer was started. */
  #leftMs: number
  /** Bytes since the timer last began again, as it does with the first bytes of an answer. */
  #bytes = stallBytesMin

  constructor(outer: AbortSignal, stallMs: number) {
    this.#outer = outer
    this.#stallMs = stallMs
    this.#leftMs = stallMs
    if (outer.aborted) this.#onAbort()
    outer.addEventListener('abort', this.#onAbort, { once: true })
    this.#start()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** After a pause, in which so many bytes were taken in. */
  goOn(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes >= stallBytesMin) {
      this.#bytes = 0
      this.#leftMs = this.#stallMs
    }
    this.#start()
  }

  pause(): void {
    clearTimeout(this.#timer)
    this.#leftMs -= performance.now() - this.#startedAt
  }

  #start(): void {
    this.#startedAt = performance.now()
    const detail = `nothing for ${this.#stallMs / 1000} s, or next to nothing`
    this.#timer = setTimeout(() => this.#controller.abort(new Error(detail)), this.#leftMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener('abort', this.#onAbort)
  }
}
