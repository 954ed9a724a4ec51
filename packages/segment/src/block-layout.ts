/** Where the fixed-width columns of a block body of `count` rows start (segment-format.md 4.1). */
export interface BlockLayout {
  readonly seqs: number
  readonly witnessedAts: number
  readonly indexedAts: number
  readonly kinds: number
  readonly collectionLengths: number
  readonly didLengths: number
  readonly rkeyLengths: number
  readonly revLengths: number
  readonly payloadLengths: number
  /** Start of the variable part: collections, dids, rkeys, revs, payloads, one blob after the other. */
  readonly blobs: number
}

/** Bytes that a row takes of each column of fixed width. */
export const columnWidths: Readonly<Record<Exclude<keyof BlockLayout, 'blobs'>, number>> = {
  seqs: 8,
  witnessedAts: 8,
  indexedAts: 8,
  kinds: 1,
  collectionLengths: 1,
  didLengths: 2,
  rkeyLengths: 1,
  revLengths: 1,
  payloadLengths: 4,
}

/** The row count before the first column. It is the whole body of a block without rows. */
export const emptyBodyBytes = 4

export function blockLayout(count: number): BlockLayout {
  const column = (bytesBefore: number): number => emptyBodyBytes + bytesBefore * count
  return {
    seqs: column(0),
    witnessedAts: column(8),
    indexedAts: column(16),
    kinds: column(24),
    collectionLengths: column(25),
    didLengths: column(26),
    rkeyLengths: column(28),
    revLengths: column(29),
    payloadLengths: column(30),
    blobs: column(34),
  }
}
