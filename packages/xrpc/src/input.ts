import {
  ValidationError,
  jsonToLex,
  type LexXrpcProcedure,
  type LexXrpcQuery,
  type Lexicons,
} from '@atproto/lexicon'
import { validated } from './params.ts'
import { XrpcError } from './xrpc-error.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads the body of a procedure call as its lexicon says. A method without input takes any body and ignores it.
 * Throws XrpcError 400 `InvalidRequest`.
 */
export function decodeInput(
  lexicons: Lexicons,
  nsid: string,
  definition: LexXrpcProcedure,
  body: { bytes: Uint8Array; contentType: string | undefined },
): unknown {
  if (definition.input === undefined) return undefined
  const encoding = definition.input.encoding
  const sent = body.contentType?.split(';', 1)[0]?.trim().toLowerCase()
  if (encoding !== '*/*' && sent !== encoding) {
    throw new XrpcError(400, 'InvalidRequest', `the request needs the header Content-Type: ${encoding}`)
  }
  if (encoding !== 'application/json') return body.bytes
  const json = parseJson(body.bytes)
  // The validator takes an array for an object without fields.
  if (Array.isArray(json)) throw new XrpcError(400, 'InvalidRequest', 'Input must be an object')
  // No input has links, bytes or blobs. To look for them costs milliseconds, in fields that no method knows, too.
  validated(() => lexicons.assertValidXrpcInput(nsid, json))
  return json
}

/** Parses a JSON body of UTF-8 text. Throws XrpcError 400 `InvalidRequest`. */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch {
    throw new XrpcError(400, 'InvalidRequest', 'the request body must be JSON')
  }
}

/** Checks what a handler returned before it is sent. Throws ValidationError: a fault of ours. */
export function checkOutput(
  lexicons: Lexicons,
  nsid: string,
  definition: LexXrpcProcedure | LexXrpcQuery,
  output: unknown,
): void {
  if (definition.output?.schema !== undefined) lexicons.assertValidXrpcOutput(nsid, toDataModel(output))
}

function toDataModel(json: unknown): unknown {
  try {
    return jsonToLex(json)
  } catch (error) {
    // Such as a $link that is no CID.
    throw new ValidationError(error instanceof Error ? error.message : 'not a value of the data model')
  }
}
