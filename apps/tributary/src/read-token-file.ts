import { readFileSync } from 'node:fs'
import { systemMessage } from './system-message.ts'

/** A token or key cannot be read. The message says which file, and why. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError'
}

/** Where the operator token is if nothing names a file or a data directory. */
export const defaultOperatorTokenFile = 'data/operator-token'

/** Reads the token that a command sends to a service. @throws TokenFileError */
export function readOperatorToken(file: string): string {
  const advice =
    file === defaultOperatorTokenFile
      ? '; name it with --operator-token-file, or the data directory with TRIBUTARY_UP_DATA_DIRECTORY'
      : ''
  return readTokenFile(file, 'operator token', advice)
}

/**
 * @param what it is, for the message.
 * @param advice after the message that it cannot be read.
 * @throws TokenFileError
 */
export function readTokenFile(file: string, what: string, advice = ''): string {
  let token: string
  try {
    token = readFileSync(file, 'utf8').trim()
  } catch (cause) {
    const why = systemMessage(cause) ?? String(cause)
    // An error of reading does not name the file.
    const place = why.includes(file) ? '' : `${file}: `
    throw new TokenFileError(`cannot read the ${what}: ${place}${why}${advice}`, { cause })
  }
  // What another file holds is neither sent nor shown.
  if (!/^[\x21-\x7e]{1,8192}$/.test(token))
    throw new TokenFileError(`${file} holds no ${what}: expected one word of at most 8192 characters`)
  return token
}
