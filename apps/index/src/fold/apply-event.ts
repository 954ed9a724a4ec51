/**
 * Applies one event to rows in memory: a function of the rows and the event. What concerns every record of an account is
 * not done here but said, because it may be more than memory holds.
 */
import { parseDatetime } from '@tributary/index-store'
import {
  type AccountEvent,
  type CommitEvent,
  type Did,
  recordUri,
  type StreamEvent,
  type SyncEvent,
} from '@tributary/protocol'
import type { RecordViews } from '@tributary/record-view'
import { forgetHandle, isShown, meet, requestHandle, stateOf } from './accounts.ts'
import { conceal, type FeedPolicy, show } from './feed-rows.ts'
import type { IndexRows } from './index-rows.ts'
import { isReadable, isStatus } from './readable.ts'
import { putRecord, removeRecord } from './records.ts'

/** An instruction for all rows of an account. */
export type AccountChange =
  /** Its records are gone for good. */
  | { readonly change: 'purge'; readonly did: Did }
  /** Its present records come next; the ones so far are taken away, and keep their places. */
  | { readonly change: 'supersede'; readonly did: Did; readonly at: bigint }
  | { readonly change: 'hide' | 'show'; readonly did: Did }

/** `malformed`: without what its kind needs; then the rows are as if it had not come. */
export type Applied = 'done' | 'malformed' | AccountChange

export interface Making {
  readonly policy: FeedPolicy
  readonly views: RecordViews
}

export function applyEvent(rows: IndexRows, event: StreamEvent, making: Making): Applied {
  if (!isReadable(event)) return 'malformed'
  switch (event.kind) {
    case 'commit':
      return event.operation === 'delete' ? remove(rows, event, making) : put(rows, event, making)
    case 'account':
      return applyAccount(rows, event)
    case 'identity':
      if (rows.accounts.get(event.did)?.isAuthor === 1n) requestHandle(rows, event.did, event.seq)
      return 'done'
    case 'sync':
      return applySync(rows, event)
  }
}

function put(rows: IndexRows, event: CommitEvent, { policy, views }: Making): Applied {
  const { did, collection, rkey, cid, record: value, time } = event
  const receivedAt = parseDatetime(time)
  if (cid === undefined || value === undefined || receivedAt === undefined) return 'malformed'
  const account = meet(rows, did)
  const createdAt = parseDatetime(value['createdAt'])
  const incoming = { did, collection, rkey, cid, value, createdAt, receivedAt }
  const record = putRecord(rows, incoming, views)
  if (record !== undefined && account.hidden === 0n) show(rows, record, value, policy)
  return 'done'
}

function remove(rows: IndexRows, { did, collection, rkey }: CommitEvent, { views }: Making): Applied {
  const record = { uri: recordUri(did, collection, rkey), did, collection }
  if (removeRecord(rows, record, views)) conceal(rows, record)
  return 'done'
}

/**
 * A marker that the stream wrote itself (its upstream seq is 0) stands right before the present records of the account
 * and takes away what came before. One from upstream only announces that: the stream reads the repository again and
 * then writes its own marker. Until then what is stored is the best there is, and stays.
 *
 * The stream reads repositories of active accounts only. If it missed that one is active again, it has asked its relay, and
 * tells of it by the marker alone.
 */
function applySync(rows: IndexRows, { did, seq, time, sync }: SyncEvent): Applied {
  const at = parseDatetime(time)
  if (at === undefined) return 'malformed'
  const known = rows.accounts.get(did)
  if (sync.seq > 0 || known === undefined) return 'done'
  if (known.isAuthor === 0n) rows.accounts.remove(did)
  else if (!isShown(known.status))
    rows.accounts.put(
      stateOf({ ...known, status: 'active', statusSeq: BigInt(seq), hostStatus: null }, known),
    )
  return { change: 'supersede', did, at }
}

function applyAccount(rows: IndexRows, { did, seq, account }: AccountEvent): Applied {
  const known = rows.accounts.get(did)
  const isAuthor = known?.isAuthor === 1n
  if (account.active && !isAuthor) {
    rows.accounts.remove(did)
    return 'done'
  }
  const status = statusOf(account)
  const isDeleted = status === 'deleted'
  const said = { did, status, statusSeq: BigInt(seq), hostStatus: null }
  const state = stateOf({ ...said, isAuthor: isAuthor && !isDeleted ? 1n : 0n }, known)
  rows.accounts.put(state)
  if (!isAuthor) return 'done'
  if (account.active && known.status === 'deleted') requestHandle(rows, did, seq)
  if (isDeleted) {
    forgetHandle(rows, did)
    return { change: 'purge', did }
  }
  if (state.hidden === known.hidden) return 'done'
  return { change: state.hidden === 1n ? 'hide' : 'show', did }
}

/** Whether it is active is said apart, and an account that is not has no status of that name. */
function statusOf({ active, status = 'inactive' }: AccountEvent['account']): string {
  if (active) return 'active'
  return status === 'active' || !isStatus(status) ? 'inactive' : status
}
