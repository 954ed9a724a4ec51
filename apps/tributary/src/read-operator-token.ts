import { readFileSync } from 'node:fs'

/** Reads the token that a command sends to a service. @throws Error that says which file cannot be read, and why. */
export function readOperatorToken(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`cannot read the operator token: ${why}`, { cause })
  }
}
