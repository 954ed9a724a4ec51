/** An answer other than success: `{ error, message }` with a status. The message tells the caller what to do next. */
export class XrpcError extends Error {
  override readonly name = 'XrpcError'
  readonly status: number
  /** The error's name on the wire: `InvalidRequest`. */
  readonly error: string
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, error: string, message: string, headers: Record<string, string> = {}) {
    super(message)
    this.status = status
    this.error = error
    this.headers = headers
  }
}

/** The wire names that differ between our services' contracts. */
export interface ErrorNames {
  /** 405, a known path asked with another method. */
  readonly methodNotAllowed: string
  /** 413, a body over the limit. */
  readonly tooLarge: string
  /** 500, anything unexpected. */
  readonly internal: string
}

export const defaultErrorNames: ErrorNames = {
  methodNotAllowed: 'MethodNotAllowed',
  tooLarge: 'TooLarge',
  internal: 'InternalServerError',
}

/** The message of every unexpected failure: what happened is in the log and nowhere else. */
const internalMessage = 'The server failed to answer this request. Trying again later may help.'

/**
 * Turns whatever was thrown while a request was handled into the answer for the caller.
 * `isUnexpected` marks failures of ours, which belong in the log.
 */
export function toXrpcError(thrown: unknown, names: ErrorNames): { error: XrpcError; isUnexpected: boolean } {
  if (thrown instanceof XrpcError) return { error: thrown, isUnexpected: false }
  const status = frameworkStatus(thrown)
  if (status === 413) {
    const message = 'The request body is larger than this server takes.'
    return { error: new XrpcError(413, names.tooLarge, message), isUnexpected: false }
  }
  if (status !== undefined && status < 500) {
    const message = thrown instanceof Error ? thrown.message : 'The request is not valid HTTP.'
    return { error: new XrpcError(400, 'InvalidRequest', message), isUnexpected: false }
  }
  return { error: new XrpcError(500, names.internal, internalMessage), isUnexpected: true }
}

/** The status that fastify gave to a fault it found itself; errors of ours and of Node carry no such code. */
function frameworkStatus(thrown: unknown): number | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown) || !('statusCode' in thrown)) return undefined
  const { code, statusCode } = thrown
  return typeof code === 'string' && code.startsWith('FST_') && typeof statusCode === 'number'
    ? statusCode
    : undefined
}
