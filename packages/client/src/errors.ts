/**
 * Why a stream ended or could not go on. The server's own names are used where it has one.
 * `ArchiveDamaged`: several blocks in a row do not decode. `DecompressorFailed`: the zstd decoder does not work.
 * `MalformedEvent`: thrown by the field of an event, or by `plainEvent`, when its row is not what its kind demands.
 * `Rewritten`: an archive file changed while it was downloaded. `Stalled`: refilling made no progress five times.
 */
export type StreamErrorCode =
  | 'ArchiveDamaged'
  | 'AuthenticationRequired'
  | 'CursorTooOld'
  | 'DecompressorFailed'
  | 'FutureCursor'
  | 'InvalidRequest'
  | 'MalformedEvent'
  | 'ProtocolError'
  | 'RateLimitExceeded'
  | 'Rewritten'
  | 'ServiceUnavailable'
  | 'Stalled'
  | 'Unreachable'

const retryableCodes: ReadonlySet<StreamErrorCode> = new Set<StreamErrorCode>([
  'RateLimitExceeded',
  'Rewritten',
  'ServiceUnavailable',
  'Unreachable',
])

/** Thrown out of the iteration when trying again cannot help; in between, shown as the reason of a `reconnecting` status. */
export class StreamError extends Error {
  override readonly name = 'StreamError'
  readonly code: StreamErrorCode
  /** How long the server asked us to stay away, in milliseconds. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: StreamErrorCode,
    message: string,
    options: { cause?: unknown; retryAfterMs?: number } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.retryAfterMs = options.retryAfterMs
  }

  /** True when the same request may succeed later. */
  get retryable(): boolean {
    return retryableCodes.has(this.code)
  }
}

/** A store holds no cursor that can be used here. The message says why and what to do. */
export class CursorStoreError extends Error {
  override readonly name = 'CursorStoreError'
}

/** The error for a server's refusal: an HTTP status before any data, with the XRPC error body where there was one. */
export function refusalError(
  status: number,
  body: { error?: string; message?: string },
  options: { retryAfterMs?: number } = {},
): StreamError {
  const said = [body.error, body.message].filter(Boolean).join(': ')
  const code = refusalCode(status, body.error)
  const question = code === 'ProtocolError' ? ': is it the address of a stream?' : ''
  return new StreamError(code, `the server answered ${status}${said && ` ${said}`}${question}`, options)
}

function refusalCode(status: number, error: string | undefined): StreamErrorCode {
  if (error === 'CursorTooOld' || error === 'FutureCursor') return error
  if (status === 401 || status === 403) return 'AuthenticationRequired'
  if (status === 429) return 'RateLimitExceeded'
  // A plan may name a file that was replaced meanwhile; the next plan names what is there.
  if (error === 'SegmentNotFound' || error === 'BlockNotFound' || status === 408) return 'ServiceUnavailable'
  // Methods of a stream name their errors, and are there, so something else answered.
  if (status < 400 || status === 501 || (status === 404 && error === undefined)) return 'ProtocolError'
  return status >= 500 ? 'ServiceUnavailable' : 'InvalidRequest'
}

/** What a connection failed of, for people: what libraries say where one side speaks TLS and the other does not helps nobody. */
export function failureText(error: Error, url: string): string {
  if (error.message.includes('wrong version number'))
    return 'it speaks no TLS there; begin the address with http: or ws:'
  const isHungUp = /other side closed|socket hang up/.test(error.message)
  return isHungUp && /^(?:http|ws):/.test(url)
    ? 'it ended the connection; if it speaks TLS there, begin the address with https: or wss:'
    : error.message
}
