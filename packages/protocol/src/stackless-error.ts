/**
 * An error without a stack, for what others can cause thousands of times a second: taking the stack is most of what such
 * an error costs, and nobody reads it.
 */
export class StacklessError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    const framesMax = Error.stackTraceLimit
    Error.stackTraceLimit = 0
    super(message, options)
    Error.stackTraceLimit = framesMax
  }
}
