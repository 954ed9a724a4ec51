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
  /**
   * Values in one record, those within others counted too. JSON costs by the value, not by the byte: so many take some ten
   * milliseconds, in which nothing else is done. Records of people have some hundreds, a long outline on a map some thousands.
   */
  recordValues: 20_000,
  /** The same of all records of one `#commit` whose records are turned into JSON, a record counted once for each operation. */
  commitValues: 50_000,
  /** Levels of nesting of one CBOR value. */
  cborDepth: 32,
  /** How far ahead of our clock a `rev` may lie, in milliseconds. */
  futureRevMs: 300_000,
} as const
