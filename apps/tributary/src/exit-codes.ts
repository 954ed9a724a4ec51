/** The exit codes of every command, and which error gives which. Numbers from 64 on are those of sysexits.h. */
import type { CursorStoreError, StreamError } from '@tributary/client/node'
import { CommanderError } from 'commander'
import { NoAnswerError, RefusedTokenError, ServiceError } from './call-service.ts'
import { TokenFileError } from './read-token-file.ts'
import { OutputFileError } from './read/output-file.ts'
import { isSystemError } from './system-message.ts'

export const exitCodes = {
  done: 0,
  /** Also when what was checked is not as it should be, and when a command was stopped before its end. */
  failed: 1,
  /** The command line cannot be understood. */
  usage: 64,
  /** The service did not answer in time. */
  noAnswer: 69,
  /** The output cannot be written, or a file cannot be read. */
  io: 74,
  /** The key or token was refused. */
  refused: 77,
  /** Settings need attention: starting again does not help. */
  settings: 78,
} as const

/** For the end of the help. */
export const exitCodesHelp =
  'Exit codes: 0 done, 1 failed, 64 mistyped, 69 no answer, 74 a file cannot be used, 77 key or token refused, 78 settings need attention.'

/** The command line contradicts itself. The message says how, and what to type instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A file or directory is not one that can be used. The message says which, and why. */
export class FileUseError extends Error {
  override readonly name = 'FileUseError'
}

/** The exit code for an error that ended a command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof CommanderError) return exitCodes.usage
  if (error instanceof NoAnswerError) return exitCodes.noAnswer
  if (error instanceof RefusedTokenError) return exitCodes.refused
  // The service looked at what was typed.
  if (error instanceof ServiceError && error.error === 'InvalidRequest') return exitCodes.usage
  const isOfFile = [TokenFileError, OutputFileError, FileUseError].some((kind) => error instanceof kind)
  if (isOfFile || isNamed<CursorStoreError>(error, 'CursorStoreError') || isSystemError(error))
    return exitCodes.io
  if (!isNamed<StreamError>(error, 'StreamError')) return exitCodes.failed
  if (error.code === 'InvalidRequest') return exitCodes.usage
  if (error.code === 'AuthenticationRequired') return exitCodes.refused
  return error.retryable || error.code === 'ProtocolError' ? exitCodes.noAnswer : exitCodes.failed
}

/** Whether an error is one of the client library, which a command that reads no stream does not load. */
function isNamed<E extends Error>(error: unknown, name: E['name']): error is E {
  return error instanceof Error && error.name === name
}
