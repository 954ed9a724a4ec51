import type { ValidationError } from '@atproto/lexicon'
import { XrpcError } from '@tributary/xrpc'

/** The request is malformed, or lacks something that every request needs: HTTP 400. */
export function badRequest(message: string): XrpcError {
  return new XrpcError(400, 'InvalidRequest', message)
}

/**
 * A fault that a lexicon has found: HTTP 400. The library's message begins with the path of the field. `root` is what the path
 * starts from, the body if empty.
 */
export function shapeFault(error: ValidationError, root: string): XrpcError {
  const message = error.message.replace(/^(?:Input|Object)\//, root === '' ? '' : `${root}/`)
  return badRequest(message.replace(/^(?:Input|Object)/, root || 'the body'))
}

/** The request is well formed, but holds a value that the feed does not take: HTTP 422. */
export function refusedValue(message: string): XrpcError {
  return new XrpcError(422, 'InvalidRequest', message)
}

/** The cursor is not one that this feed gave out: HTTP 400. */
export function invalidCursor(): XrpcError {
  return new XrpcError(
    400,
    'InvalidCursor',
    'cursor is not one of this feed; leave it out to start from the first page',
  )
}
