export { isStorageFault, openIndexWriter } from './database.ts'
export type { IndexConnection, IndexWriter } from './database.ts'
export { formatDatetime, parseDatetime } from './datetime.ts'
export { openIndexReader } from './open-reader.ts'
export { IndexNotReadyError, ReaderBusyError, ReadTimeoutError } from './reader.ts'
export type { IndexReader, SnapshotOptions } from './reader.ts'
export { entryKinds, qualityLabels } from './schema.ts'
export type { EntryKind, IndexDatabase, QualityLabel } from './schema.ts'
export type {
  ActorSource,
  IndexView,
  Position,
  QualityRule,
  SelectedEntry,
  SelectedView,
  Selection,
} from './select/selection.ts'
export type { Steps } from './write-turns.ts'
