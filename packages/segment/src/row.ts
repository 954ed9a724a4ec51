/** 1 create, 2 update, 3 delete, 4 identity, 5 account, 6 sync, 7 create after a resync (segment-format.md 5.1). */
export type RowKind = 1 | 2 | 3 | 4 | 5 | 6 | 7

/** The kinds by name, for code that writes or compares them. */
export const rowKind = {
  create: 1,
  update: 2,
  delete: 3,
  identity: 4,
  account: 5,
  sync: 6,
  createResync: 7,
} as const

/** One event of the archive. Which columns a kind fills is in segment-format.md 5.2; an unused column is empty. */
export interface Row {
  /** Position in this archive, from 1, never reused. */
  readonly seq: number
  /** Unix microseconds when this instance first saw the event. */
  readonly witnessedAt: number
  /** Unix microseconds of an imported display time, 0 when there is none. */
  readonly indexedAt: number
  readonly kind: RowKind
  readonly collection: string
  readonly did: string
  readonly rkey: string
  readonly rev: string
  /** The record block, or the upstream event as DAG-CBOR. A view of its block: copy it to keep it alone. */
  readonly payload: Uint8Array
}

/** True for the kinds that a collection filter applies to: creates, updates, deletes. */
export function isCommitKind(kind: RowKind): boolean {
  return kind <= rowKind.delete || kind === rowKind.createResync
}

/** True for the kinds that put a record in place, which are the only ones compaction may drop. */
export function isMaterialisingKind(kind: RowKind): boolean {
  return kind === rowKind.create || kind === rowKind.update || kind === rowKind.createResync
}

/** Entries of the collection index for rows without a collection. Not NSIDs, so no client filter can name them. */
export const markerNames = { identity: '$identity', account: '$account', sync: '$sync' } as const

/** The name that a row of this kind adds to the collection index, besides its own collection. */
export function markerNameOf(kind: RowKind): string | undefined {
  if (kind === rowKind.identity) return markerNames.identity
  if (kind === rowKind.account) return markerNames.account
  return kind === rowKind.sync ? markerNames.sync : undefined
}
