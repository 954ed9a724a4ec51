/** Nobody answered in time, or it was no service of ours that did. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
}

/** The service does not take the operator token. */
export class RefusedTokenError extends Error {
  override readonly name = 'RefusedTokenError'
}

/** The service answered with an error, which says what to do. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  /** The error's name on the wire: `HostUnreachable`. */
  readonly error: string

  constructor(error: string, message: string) {
    super(message)
    this.error = error
  }
}

const answerTimeoutMs = 30_000

/**
 * Calls a method of a running service: `method` is its name, with a query if there is one. Resolves with the JSON that it
 * answers. Waits 30 s for an answer.
 * @throws NoAnswerError, RefusedTokenError or ServiceError, with messages for people.
 */
export async function callService(baseUrl: string, method: string, init: RequestInit): Promise<unknown> {
  const base = baseUrl.replace(/\/+$/, '')
  let response: Response
  let text: string
  try {
    response = await fetch(`${base}/xrpc/${method}`, {
      signal: AbortSignal.timeout(answerTimeoutMs),
      ...init,
    })
    text = await response.text()
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    throw new NoAnswerError(`${base} did not answer: ${messageOf(cause)}`, { cause: error })
  }
  const body = parse(text)
  if (response.ok && body !== undefined) return body
  if (body === undefined) {
    throw new NoAnswerError(
      `${base} answered ${response.status} with something else than JSON: is it the service's address?`,
    )
  }
  const { error = '', message = '' } = (body ?? {}) as Record<string, string> // shown only
  const said = [error, message].filter(Boolean).join(': ') || `${base} answered ${response.status}`
  if (response.status === 401 || response.status === 403) throw new RefusedTokenError(said)
  throw new ServiceError(error, said)
}

/** A failed connection to a name with several addresses has a code and no message. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `nothing within ${answerTimeoutMs / 1000} s`
  return error.message || ('code' in error ? String(error.code) : error.name)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
