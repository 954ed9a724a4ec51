const fullDisk = 'the disk is full: make room and run it again'
/** SQLITE_FULL, as Node's own SQLite has it. */
const sqliteFull = 13

/** What the operating system says of a file, in words where they help. Undefined for other errors. */
export function systemMessage(error: unknown): string | undefined {
  if (isFullDatabase(error)) return fullDisk
  if (!isSystemError(error)) return undefined
  const place = 'path' in error && typeof error.path === 'string' ? `${error.path}: ` : ''
  const words: Partial<Record<string, string>> = {
    ENOSPC: fullDisk,
    EDQUOT: 'the quota of this user is used up: make room and run it again',
    ENOENT: 'no such file or directory',
    EACCES: 'this user may not use it',
    EROFS: 'the file system is read-only',
    EISDIR: 'it is a directory',
    ENOTDIR: 'a part of its path is no directory',
  }
  return `${place}${words[String(error.code)] ?? error.message}`
}

export function isSystemError(error: unknown): error is Error & { code: unknown; syscall: unknown } {
  return error instanceof Error && 'code' in error && 'syscall' in error
}

/** Whether SQLite found no room for what it had to write. */
export function isFullDatabase(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if ('code' in error && error.code === 'SQLITE_FULL') return true
  return 'errcode' in error && error.errcode === sqliteFull
}
