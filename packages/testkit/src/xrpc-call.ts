/** An XRPC call that was answered with an error status. */
export class XrpcCallError extends Error {
  override readonly name = 'XrpcCallError'
  readonly status: number
  /** The `error` name of the answer's body, or an empty string when there was none. */
  readonly error: string

  constructor(nsid: string, status: number, error: string, message: string) {
    super(`${nsid}: ${status} ${error} ${message}`)
    this.status = status
    this.error = error
  }
}

export interface XrpcCall {
  /** Query parameters. Repeated ones are arrays; `undefined` is left out. */
  params?: Record<string, string | number | boolean | readonly string[] | undefined>
  /** JSON input of a procedure. */
  input?: unknown
  /** Raw input of a procedure, sent as `contentType`. */
  body?: Uint8Array
  contentType?: string
  /** Value of the `authorization` header. */
  authorization?: string
}

/** Addresses the method `nsid` on `base` with its query parameters. */
export function xrpcUrl(base: string, nsid: string, params: XrpcCall['params'] = {}): string {
  const url = new URL(`/xrpc/${nsid}`, base)
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined) continue
    for (const item of typeof value === 'object' ? value : [value]) {
      url.searchParams.append(name, String(item))
    }
  }
  return url.href
}

/** Header value for the operator calls of a PDS. */
export function adminAuthorization(password: string): string {
  return `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
}

async function send(method: string, base: string, nsid: string, call: XrpcCall): Promise<Response> {
  const headers: Record<string, string> = {}
  if (call.authorization !== undefined) headers['authorization'] = call.authorization
  let body: Uint8Array<ArrayBuffer> | string | null = null
  if (call.body !== undefined) {
    headers['content-type'] = call.contentType ?? 'application/octet-stream'
    body = new Uint8Array(call.body)
  } else if (call.input !== undefined) {
    headers['content-type'] = 'application/json'
    body = JSON.stringify(call.input)
  }
  const response = await fetch(xrpcUrl(base, nsid, call.params), { method, headers, body })
  if (response.ok) return response
  const text = await response.text()
  const { error = '', message = text } = errorBody(text)
  throw new XrpcCallError(nsid, response.status, error, message)
}

function errorBody(text: string): { error?: string; message?: string } {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    // Not an XRPC error body: the caller shows the text as it is.
    return {}
  }
}

async function json<T>(response: Response): Promise<T> {
  const text = await response.text()
  // reason: the callers are tests and trust the servers they started for the shape of an answer.
  return (text === '' ? {} : JSON.parse(text)) as T
}

/** Calls a query and reads its JSON answer. Throws `XrpcCallError` on an error status. */
export async function callQuery<T>(base: string, nsid: string, call: XrpcCall = {}): Promise<T> {
  return json<T>(await send('GET', base, nsid, call))
}

/** Calls a procedure and reads its JSON answer (`{}` when empty). Throws `XrpcCallError`. */
export async function callProcedure<T>(base: string, nsid: string, call: XrpcCall = {}): Promise<T> {
  return json<T>(await send('POST', base, nsid, call))
}

/** Calls a query that answers with bytes, such as a CAR file. Throws `XrpcCallError`. */
export async function fetchBytes(base: string, nsid: string, call: XrpcCall = {}): Promise<Uint8Array> {
  return new Uint8Array(await (await send('GET', base, nsid, call)).arrayBuffer())
}
