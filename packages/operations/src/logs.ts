/** Logs that operators read, without the methods: for threads that write them and nothing else. */
export { LogTable, type LogQuery, type LogTableOptions } from './log-table.ts'
export { openLogDatabase } from './open-log-database.ts'
