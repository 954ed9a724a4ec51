/** Bytes before the last synced mark are not what was written. The log refuses to start: nothing is cut silently. */
export class LogCorruptError extends Error {
  override readonly name = 'LogCorruptError'
  readonly file: string
  readonly offset: number

  constructor(file: string, offset: number, what: string) {
    super(`log file ${file} is damaged at byte ${offset}: ${what}`)
    this.file = file
    this.offset = offset
  }
}

/** The disk refused a write or a sync. What was appended and is not durable is lost; the log takes nothing more. */
export class LogWriteError extends Error {
  override readonly name = 'LogWriteError'
}

/** Another process has the log open. */
export class LogLockedError extends Error {
  override readonly name = 'LogLockedError'
}
