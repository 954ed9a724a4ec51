import { exitCodeOf, exitCodes } from '../exit-codes.ts'
import { sayError } from '../say.ts'
import { systemMessage } from '../system-message.ts'

/** Says why a check could not go on, unless it was stopped. Returns its exit code. */
export function reportError(error: unknown, signal: AbortSignal | undefined): number {
  if (signal?.aborted) return exitCodes.failed
  const message = systemMessage(error) ?? (error instanceof Error ? error.message : String(error))
  const code = exitCodeOf(error)
  const advice = code === exitCodes.refused ? '; give an archive key with --api-key-file' : ''
  sayError(`tributary verify: ${message}${advice}`)
  return code
}
