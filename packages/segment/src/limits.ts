/** Bounds of the segment format (segment-format.md sections 4, 5.4, 7, 8, 11) and of what this package accepts. */
export const segmentLimits = {
  /** Rows of one block; the format's own bound. */
  blockRows: 262_144,
  /** Rows of a full block as this project writes them. */
  blockRowsDefault: 4096,
  /** Decompressed bytes of one block, 1 GiB; upstream refuses more. */
  blockBodyBytes: 1_073_741_824,
  /** Blocks of one segment. */
  segmentBlocks: 1_048_576,
  /** Distinct collections of one segment, marker names included. */
  collections: 1_048_576,
  /** Decompressed bytes of a collection index, 256 MiB: far above any real one, and small enough to allocate. */
  collectionIndexBytes: 268_435_456,
  /** 512-bit blocks of one DID filter (128 MiB); above this, block selection would leave the safe integers. */
  filterBlocks: 2_097_152,
  /** Bytes of the string columns of a row. */
  didBytes: 65_535,
  collectionBytes: 255,
  rkeyBytes: 255,
  revBytes: 255,
} as const
