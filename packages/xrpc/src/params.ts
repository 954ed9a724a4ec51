import { ValidationError, type LexXrpcParameters, type Lexicons } from '@atproto/lexicon'
import { XrpcError } from './xrpc-error.ts'

export type Params = Readonly<Record<string, unknown>>

/**
 * Reads the query string of a call as its lexicon says: repeated names are arrays, a single value where an array is
 * expected is an array of one, integers and booleans are strict, defaults are filled in, unknown names are ignored.
 * Throws XrpcError 400 `InvalidRequest` naming the parameter.
 */
export function decodeParams(
  lexicons: Lexicons,
  nsid: string,
  definition: LexXrpcParameters | undefined,
  queryString: string,
): Params {
  if (definition === undefined) return {}
  const given = new URLSearchParams(queryString)
  const params: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(definition.properties)) {
    const texts = given.getAll(name)
    const [first] = texts
    if (first === undefined) continue
    if (property.type === 'array') {
      params[name] = texts.map((text) => decodeValue(name, property.items.type, text))
    } else if (texts.length > 1) {
      throw invalid(`${name} may be given only once`)
    } else {
      params[name] = decodeValue(name, property.type, first)
    }
  }
  return validated(() => lexicons.assertValidXrpcParams(nsid, params)) ?? params
}

/**
 * Runs a lexicon validation of something that the caller sent. Throws XrpcError 400 `InvalidRequest`.
 *
 * The library makes an error for each parameter that is not given, also where it need not be. To take their stacks was nine
 * tenths of what a handshake's parameters cost.
 */
export function validated<T>(validate: () => T): T {
  const framesMax = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return validate()
  } catch (error) {
    if (error instanceof ValidationError) throw invalid(error.message)
    throw error
  } finally {
    Error.stackTraceLimit = framesMax
  }
}

function decodeValue(name: string, type: string, text: string): unknown {
  if (type === 'integer') {
    const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (!Number.isSafeInteger(value)) throw invalid(`${name} must be an integer`)
    return value
  }
  if (type === 'boolean') {
    if (text !== 'true' && text !== 'false') throw invalid(`${name} must be true or false`)
    return text === 'true'
  }
  return text
}

function invalid(message: string): XrpcError {
  return new XrpcError(400, 'InvalidRequest', message)
}
