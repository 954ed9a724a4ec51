import { ServiceError } from './call-service.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { sayError } from './say.ts'
import { systemMessage } from './system-message.ts'

/** Advice for errors that only say what is wrong. Those of services do not know our commands. */
const advices: ReadonlyMap<string, string> = new Map([
  ['LogLockedError', ': stop the relay first'],
  ['DirectoryInUseError', ': stop the stream first'],
  ['JobNotFound', ' (tributary stream jobs list)'],
  ['KeyNotFound', ' (tributary stream keys list)'],
])

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
    const name = error instanceof ServiceError ? error.error : error instanceof Error ? error.name : ''
    sayError(`${command}: ${message}${advices.get(name) ?? ''}`)
    return exitCodeOf(error)
  }
}
