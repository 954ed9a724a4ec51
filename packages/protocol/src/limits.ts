/** Sizes and counts of the sync protocol, enforced on everything that comes in. Bytes unless the name says otherwise. */
export const limits = {
  /** One WebSocket message of `subscribeRepos`. */
  messageBytes: 5_000_000,
  /** `blocks` of a `#commit`. */
  commitBlocksBytes: 2_000_000,
  /** `blocks` of a `#sync`. */
  syncBlocksBytes: 10_000,
  /** Operations of one `#commit`. */
  opsPerCommit: 200,
  /** One record. */
  recordBytes: 1_000_000,
  /** One key of the MST, `<collection>/<rkey>`. */
  mstKeyBytes: 1024,
  didChars: 2048,
  /**
   * Values in one record, those within others counted too. A byte of a record can be a value that takes 14 as JSON: with as
   * many as this a record of the largest size takes less than 8 MB.
   */
  recordValues: 200_000,
  /** Levels of nesting of one CBOR value. */
  cborDepth: 32,
  /** How far ahead of our clock a `rev` may lie, in milliseconds. */
  futureRevMs: 300_000,
} as const
