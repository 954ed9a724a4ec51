/** What systems and SQLite call a disk, or a share of one, that has no room. */
const codes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL'])
/** Causes of causes that are looked at. */
const depthMax = 10

const advice =
  'the disk is full, so the service has ended; make room on the disk of the data directory and start the service again: nothing that it acknowledged is lost'

/** What an operator has to do when a full disk is the cause of an error. Undefined when it is not. */
export function adviceOnFullDisk(error: unknown): string | undefined {
  let cause = error
  for (let depth = 0; depth < depthMax && cause instanceof Error; depth++) {
    if ('code' in cause && codes.has(cause.code)) return advice
    cause = cause.cause
  }
  return undefined
}
