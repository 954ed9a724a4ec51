/** The exit codes of every command, and which error gives which. Numbers from 64 on are those of sysexits.h. */
import { CursorStoreError, StreamError } from '@tributary/client/node'
import { CommanderError } from 'commander'
import { NoAnswerError, RefusedTokenError } from './call-service.ts'
import { TokenFileError } from './read-token-file.ts'
import { OutputFileError } from './read/output-file.ts'

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

/** The exit code for an error that ended a command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof CommanderError) return exitCodes.usage
  if (error instanceof NoAnswerError) return exitCodes.noAnswer
  if (error instanceof RefusedTokenError) return exitCodes.refused
  const isOfFile = [CursorStoreError, TokenFileError, OutputFileError].some((kind) => error instanceof kind)
  if (isOfFile || isSystemError(error)) return exitCodes.io
  if (!(error instanceof StreamError)) return exitCodes.failed
  if (error.code === 'InvalidRequest') return exitCodes.usage
  if (error.code === 'AuthenticationRequired') return exitCodes.refused
  return error.retryable ? exitCodes.noAnswer : exitCodes.failed
}

/** What the operating system says of a file, in words where they help. Undefined for other errors. */
export function systemMessage(error: unknown): string | undefined {
  if (!isSystemError(error)) return undefined
  const place = 'path' in error && typeof error.path === 'string' ? `${error.path}: ` : ''
  const words: Partial<Record<string, string>> = {
    ENOSPC: 'the disk is full: make room and run it again',
    EDQUOT: 'the quota of this user is used up: make room and run it again',
    ENOENT: 'no such file or directory',
    EACCES: 'this user may not use it',
    EROFS: 'the file system is read-only',
    EISDIR: 'it is a directory',
    ENOTDIR: 'a part of its path is no directory',
  }
  return `${place}${words[String(error.code)] ?? error.message}`
}

function isSystemError(error: unknown): error is Error & { code: unknown; syscall: unknown } {
  return error instanceof Error && 'code' in error && 'syscall' in error
}
