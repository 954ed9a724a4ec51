import { readFileSync } from 'node:fs'

/** The operator token cannot be read. The message says which file, and why. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError'
}

/** Reads the token that a command sends to a service. @throws TokenFileError */
export function readOperatorToken(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new TokenFileError(`cannot read the operator token: ${why}`, { cause })
  }
}
