/**
 * The store of the index: all SQL is here, and no connection leaves it. A writer gives transactions in which rows are
 * loaded, put and removed in sets; a reader gives whole states for a bounded time. SQLite and PostgreSQL have one schema
 * and one suite of tests. `pg` speaks to PostgreSQL, because its protocol is not what Tributary is for.
 */
export { formatDatetime, parseDatetime } from './datetime.ts'
export { type GenerationProgress, type Generations, GenerationsLeftError } from './generations.ts'
export { openGenerations, openIndexReader, openIndexWriter } from './open-index.ts'
export { IndexNotReadyError, ReaderBusyError, ReadTimeoutError } from './reader.ts'
export type { IndexReader, SnapshotOptions } from './reader.ts'
export { IndexStorageError } from './storage-error.ts'
export type { HandleRequestsTable } from './schema.ts'
export type { AccountReport } from './select/account.ts'
export type {
  ActorSource,
  IndexView,
  Position,
  QualityRule,
  Reasons,
  SelectedEntry,
  SelectedView,
  Selection,
} from './select/selection.ts'
export type { WindowBounds } from './select/window.ts'
export type { RowOf, TableName } from './tables.ts'
export type { RecordRow, StoredRow } from './write/account-rows.ts'
export type { Batch, PagedTable } from './write/batch.ts'
export type { AwardState, Content } from './write/classification.ts'
export type { IndexWriter } from './writer.ts'
