import { readFileSync } from 'node:fs'

/** A token or key cannot be read. The message says which file, and why. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError'
}

/** Reads the token that a command sends to a service. @throws TokenFileError */
export function readOperatorToken(file: string): string {
  return readTokenFile(file, 'operator token')
}

/** @param what it is, for the message. @throws TokenFileError */
export function readTokenFile(file: string, what: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new TokenFileError(`cannot read the ${what}: ${why}`, { cause })
  }
}
