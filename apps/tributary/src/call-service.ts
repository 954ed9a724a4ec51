import { UsageError } from './command-errors.ts'

/** Nobody answered in time, or it was no service of ours that did. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
}

/** The service does not take the operator token. */
export class RefusedTokenError extends Error {
  override readonly name = 'RefusedTokenError'
}

export type Json = Record<string, unknown>

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
/** More than the largest page of a list takes. */
const jsonBytesMax = 16 * 1024 * 1024

/**
 * Calls a method of a running service: `method` is its name, with a query if there is one. Resolves with the JSON that it
 * answers. Waits 30 s for an answer.
 * @throws NoAnswerError, RefusedTokenError or ServiceError, with messages for people.
 */
export async function callService(baseUrl: string, method: string, init: RequestInit): Promise<unknown> {
  const base = baseOf(baseUrl)
  const { response, content } = await answerOf(
    base,
    method,
    init,
    async (answer) => await readBytes(answer, jsonBytesMax),
  )
  const body = parse(content)
  if (response.ok && body !== undefined) return body
  throw refusalOf(base, method, response, body)
}

/**
 * As `callService`, for a method that answers with bytes. The answer must go on within 30 s each time.
 * @throws also NoAnswerError when there are more than `bytesMax`.
 */
export async function fetchBytes(
  baseUrl: string,
  method: string,
  init: RequestInit,
  bytesMax: number,
): Promise<Uint8Array> {
  const base = baseOf(baseUrl)
  const stalled = new AbortController()
  const timer = setTimeout(() => stalled.abort(new DOMException('stalled', 'TimeoutError')), answerTimeoutMs)
  const { signal } = stalled
  try {
    const { response, content } = await answerOf(
      base,
      method,
      { ...init, signal },
      async (answer) => await readBytes(answer, bytesMax, () => timer.refresh()),
    )
    if (response.ok) return content
    throw refusalOf(base, method, response, parse(content))
  } finally {
    clearTimeout(timer)
  }
}

/**
 * The bytes of an answer. They are counted as they are after decompression.
 * @param onBytes called each time that there are more.
 * @throws NoAnswerError when there are more than `bytesMax`.
 */
export async function readBytes(
  answer: Response,
  bytesMax: number,
  onBytes: () => void = () => {},
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    onBytes()
    bytes += chunk.length
    if (bytes > bytesMax)
      throw new NoAnswerError(`${new URL(answer.url).origin} sends more than ${bytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, bytes)
}

/** @throws UsageError for what is no address. */
function baseOf(typed: string): string {
  const url = URL.parse(typed)
  if (!url || !/^https?:$/.test(url.protocol)) throw new UsageError(`${typed} is not an http address`)
  // They would be in every message that names the address.
  if (url.username !== '' || url.password !== '')
    throw new UsageError(`leave the user name and the password out of the address of ${url.host}`)
  return typed.replace(/\/+$/, '')
}

async function answerOf<T>(
  base: string,
  method: string,
  init: RequestInit,
  read: (response: Response) => Promise<T>,
): Promise<{ response: Response; content: T }> {
  try {
    const signal = AbortSignal.timeout(answerTimeoutMs)
    const response = await fetch(`${base}/xrpc/${method}`, { signal, ...init })
    return { response, content: await read(response) }
  } catch (error) {
    if (error instanceof NoAnswerError) throw error
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    throw new NoAnswerError(`${base} did not answer: ${messageOf(cause, base)}`, { cause: error })
  }
}

/** The fields of an answer, which has these. @throws NoAnswerError when it was no service of ours that answered. */
export function fieldsOf(base: string, body: unknown, ...names: readonly string[]): Json {
  const fields = (typeof body === 'object' ? body : undefined) ?? {}
  const missing = names.find((name) => !(name in fields))
  if (missing !== undefined) throw notOurs(base, `without ${missing}`)
  if (fields !== body || Array.isArray(body)) throw notOurs(base, 'with something else than an object')
  return fields as Json // an object has fields
}

/** It was no service of ours that answered so. */
export function notOurs(base: string, how: string, expected = "the service's address"): NoAnswerError {
  return new NoAnswerError(`${baseOf(base)} answered ${how}: is it ${expected}?`)
}

/** Which of our services has a method. */
function serviceOf(method: string): 'relay' | 'stream' | 'feed' {
  if (method.startsWith('org.impact.')) return 'feed'
  return /^(?:com\.atproto|network\.social\.stream\.relay)\./.test(method) ? 'relay' : 'stream'
}

/** Why an answer is none. `body` is undefined where it was no JSON. */
function refusalOf(base: string, method: string, response: Response, body: unknown): Error {
  if (body === undefined) {
    return notOurs(base, `${response.status} with something else than JSON`)
  }
  const { error = '', message } = (body ?? {}) as Json // of what is no object too
  const words = [error, message].filter((word) => typeof word === 'string' && word !== '')
  const said = words.join(': ') || `${base} answered ${response.status}`
  if (response.status === 401 || response.status === 403) return new RefusedTokenError(said)
  if (response.status === 501) {
    const error = notOurs(base, `501 ${said}`, `the address of a ${serviceOf(method)}`)
    // A service without an operator token has no methods for operators.
    if (method.includes('.admin.'))
      error.message += ' If it is, it runs without the setting operatorToken, which turns these commands on'
    return error
  }
  return new ServiceError(String(error), said)
}

/** What a connection to an address failed of, for people. One to a name with several addresses has a code and no message. */
export function messageOf(error: unknown, url: string): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `nothing within ${answerTimeoutMs / 1000} s`
  // In OpenSSL's words.
  if (error.message.includes('wrong version number'))
    return 'it speaks no TLS there; begin the address with http:'
  if (/^(?:http|ws):/.test(url) && /other side closed|socket hang up/.test(error.message))
    return 'it ended the connection; if it speaks TLS there, begin the address with https:'
  return error.message || ('code' in error ? String(error.code) : error.name)
}

/** Levels of nesting of an answer. Records have 32 at most; what is deeper would overflow the stack of whoever prints it. */
const nestingMax = 100

/** Undefined for what is no JSON, or is nested too deep. */
function parse(content: Buffer): unknown {
  const text = content.toString()
  try {
    return isDeep(text) ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

function isDeep(json: string): boolean {
  let depth = 0
  let isText = false
  for (let at = 0; at < json.length && depth <= nestingMax; at++) {
    const sign = json.charAt(at)
    if (sign === '"') isText = !isText
    else if (isText) at += sign === '\\' ? 1 : 0
    else if (sign === '[' || sign === '{') depth++
    else if (sign === ']' || sign === '}') depth--
  }
  return depth > nestingMax
}
