/** Errors of what was typed, and of what it names. */

/** The command line contradicts itself. The message says how, and what to type instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A file or directory is not one that can be used. The message says which, and why. */
export class FileUseError extends Error {
  override readonly name = 'FileUseError'
}
