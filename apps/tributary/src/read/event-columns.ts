import { type ClientEvent, StreamError } from '@tributary/client/node'

/** An event as a row of a table. */
export interface EventColumns {
  seq: number
  /** RFC 3339, when the stream or its relay saw the event. */
  time: string
  kind: ClientEvent['kind']
  did: string
  /** Null, like the next four, for what is no commit. */
  operation: string | null
  collection: string | null
  rkey: string | null
  rev: string | null
  /** Null for a delete too. */
  cid: string | null
  /** The record as JSON. Null for a delete too. */
  record: string | null
  /** Body of an identity, account or sync event as JSON. Null for a commit. */
  body: string | null
}

/** The rows of these events, and an error for each malformed event: those have no row. */
export function rowsOf(events: readonly ClientEvent[]): { rows: EventColumns[]; malformed: StreamError[] } {
  const rows: EventColumns[] = []
  const malformed: StreamError[] = []
  for (const event of events) {
    try {
      rows.push(rowOf(event))
    } catch (error) {
      malformed.push(malformedOf(event, error))
    }
  }
  return { rows, malformed }
}

/** @throws other errors than those of one event. */
function malformedOf({ seq }: ClientEvent, error: unknown): StreamError {
  if (error instanceof StreamError) return error
  if (!(error instanceof RangeError)) throw error
  const message = `the event of seq ${seq} is too large, or too deep, to make JSON of`
  return new StreamError('MalformedEvent', message, { cause: error })
}

/** @throws StreamError `MalformedEvent`, and RangeError for what is too large to make JSON of. */
function rowOf(event: ClientEvent): EventColumns {
  const { seq, time, kind, did } = event
  const none = { operation: null, collection: null, rkey: null, rev: null, cid: null, record: null }
  switch (event.kind) {
    case 'commit': {
      const { operation, collection, rkey, rev, cid = null } = event
      const record = event.record === undefined ? null : JSON.stringify(event.record)
      return { seq, time, kind, did, operation, collection, rkey, rev, cid, record, body: null }
    }
    case 'identity':
      return { seq, time, kind, did, ...none, body: JSON.stringify(event.identity) }
    case 'account':
      return { seq, time, kind, did, ...none, body: JSON.stringify(event.account) }
    case 'sync':
      return { seq, time, kind, did, ...none, body: JSON.stringify(event.sync) }
  }
}
