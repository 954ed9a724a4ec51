/** Bounds of the segment format (segment-format.md sections 4, 5.4, 7, 8, 11) and of what this package accepts. */
export const segmentLimits = {
  /** Rows of one block; the format's own bound. */
  blockRows: 262_144,
  /** Rows of a full block as this project writes them. */
  blockRowsDefault: 4096,
  /** Decompressed bytes of one block; upstream refuses more. */
  blockBodyBytes: 1024 * 1024 * 1024,
  /** Blocks of one segment. */
  segmentBlocks: 2 ** 20,
  /** Distinct collections of one segment, marker names included. */
  collections: 2 ** 20,
  /** Decompressed bytes of a collection index: far above any real one, and small enough to allocate. */
  collectionIndexBytes: 256 * 1024 * 1024,
  /** 512-bit blocks of one DID filter (128 MiB); above this, block selection would leave the safe integers. */
  filterBlocks: 2 ** 21,
  /** Bytes of the string columns of a row. */
  didBytes: 65_535,
  collectionBytes: 255,
  rkeyBytes: 255,
  revBytes: 255,
} as const
