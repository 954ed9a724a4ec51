import { XrpcError } from '@tributary/xrpc'

/** The request is malformed, or lacks something that every request needs: HTTP 400. */
export function badRequest(message: string): XrpcError {
  return new XrpcError(400, 'InvalidRequest', message)
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
