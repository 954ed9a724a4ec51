/** What a feed shows of a record, prepared when the record changes. */
export { createRecordViews, type RecordViews } from './record-views.ts'
