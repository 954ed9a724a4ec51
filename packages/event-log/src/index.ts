export { EventLog, type EventLogOptions } from './event-log.ts'
export { LogCorruptError, LogLockedError, LogWriteError } from './errors.ts'
export type { LogSlice } from './log-slice.ts'
export type { RecordMeta } from './block.ts'
