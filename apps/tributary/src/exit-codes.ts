/** The exit codes of every command, and which error gives which. Numbers from 64 on are those of sysexits.h. */
import type { CursorStoreError, StreamError } from '@tributary/client/node'
import type { IndexNotReadyError, IndexStorageError } from '@tributary/index-store'
import type { SegmentError } from '@tributary/segment'
import { CommanderError } from 'commander'
import { FileUseError, UsageError } from './command-errors.ts'
import { NoAnswerError, RefusedTokenError, ServiceError } from './call-service.ts'
import { TokenFileError } from './read-token-file.ts'
import { OutputFileError } from './read/output-file.ts'
import { isFullDatabase, isSystemError } from './system-message.ts'

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

/** The exit code for an error that ended a command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof CommanderError) return exitCodes.usage
  if (error instanceof NoAnswerError) return exitCodes.noAnswer
  // A database is a file, or a server.
  if (
    isNamed<IndexStorageError>(error, 'IndexStorageError') ||
    isNamed<IndexNotReadyError>(error, 'IndexNotReadyError')
  )
    return isOfSocket(error.cause) ? exitCodes.noAnswer : exitCodes.io
  if (error instanceof RefusedTokenError) return exitCodes.refused
  // The service looked at what was typed.
  if (error instanceof ServiceError && error.error === 'InvalidRequest') return exitCodes.usage
  const isOfFile = [TokenFileError, OutputFileError, FileUseError].some((kind) => error instanceof kind)
  const isOfLibrary =
    isNamed<CursorStoreError>(error, 'CursorStoreError') || isNamed<SegmentError>(error, 'SegmentError')
  if (isOfFile || isOfLibrary || isSystemError(error) || isFullDatabase(error)) return exitCodes.io
  if (!isNamed<StreamError>(error, 'StreamError')) return exitCodes.failed
  if (error.code === 'InvalidRequest') return exitCodes.usage
  if (error.code === 'AuthenticationRequired') return exitCodes.refused
  return error.retryable || error.code === 'ProtocolError' ? exitCodes.noAnswer : exitCodes.failed
}

/** Whether a server was not reached. */
function isOfSocket(error: unknown): boolean {
  return isSystemError(error) && (error.syscall === 'connect' || error.syscall === 'getaddrinfo')
}

/** Whether an error is one of a library, which is loaded only by the commands that need it. */
function isNamed<E extends Error>(error: unknown, name: E['name']): error is E {
  return error instanceof Error && error.name === name
}
