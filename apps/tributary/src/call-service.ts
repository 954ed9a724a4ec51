/**
 * Calls a method of a running service: `method` is its name, with a query if there is one. Resolves with the JSON that it
 * answers. Throws an error that a person can read when there is no answer, another one than success, or no JSON.
 */
export async function callService(baseUrl: string, method: string, init: RequestInit): Promise<unknown> {
  const base = baseUrl.replace(/\/+$/, '')
  let response: Response
  let text: string
  try {
    response = await fetch(`${base}/xrpc/${method}`, init)
    text = await response.text()
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    throw new Error(`${base} did not answer: ${messageOf(cause)}`, { cause: error })
  }
  const body = parse(text)
  if (response.ok && body !== undefined) return body
  const { error = '', message = 'with something else than JSON' } = (body ?? {}) as Record<string, string> // shown only
  throw new Error(`${base} answered ${response.status} ${error}${error && ': '}${message}`)
}

/** A failed connection to a name with several addresses has a code and no message. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || ('code' in error ? String(error.code) : error.name)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
