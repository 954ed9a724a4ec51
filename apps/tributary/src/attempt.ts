import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { sayError } from './say.ts'
import { systemMessage } from './system-message.ts'

/** What else is to be said of errors that only say what is wrong. */
const advices: Readonly<Record<string, string>> = {
  LogLockedError: ': stop the relay first',
  DirectoryInUseError: ': stop the stream first',
}

/**
 * Runs a command; what goes wrong is said on stderr in a sentence.
 * @param command as it is typed, such as `tributary relay log verify`.
 * @param run may return an exit code.
 * @returns the exit code.
 */
export async function attempt(command: string, run: () => Promise<number | void>): Promise<number> {
  try {
    return (await run()) ?? exitCodes.done
  } catch (error) {
    const message = systemMessage(error) ?? (error instanceof Error ? error.message : String(error))
    const advice = (error instanceof Error && advices[error.name]) || ''
    sayError(`${command}: ${message}${advice}`)
    return exitCodeOf(error)
  }
}
