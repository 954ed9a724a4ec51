/**
 * The .jss segment format: rows in columnar blocks, blocks in zstd frames, frames in files that are first appended to
 * and then sealed with an index, filters and a checksum.
 *
 * This entry runs anywhere: encoding, decoding and checking bytes in memory, with a zstd decompressor passed in.
 * Files, recovery and the directory of segments are in `@tributary/segment/node`.
 * Must hold: no bytes from outside make a reader throw anything but SegmentError, or allocate past segmentLimits.
 */
export { auditSegment } from './audit-segment.ts'
export { type BlockEntry, encodeBlockIndex, refuseLargeBlocks } from './block-index.ts'
export { type BlockView, decodeBlock, textColumns } from './block-view.ts'
export type { CollectionIndex, SegmentCollection } from './collection-index.ts'
export { type BlockDidFilters, type DidFilter, DidHashes, type DidHash, hashDid } from './did-filter.ts'
export { encodeBlockBody } from './encode-block.ts'
export { isDamage, SegmentError, type SegmentProblem } from './errors.ts'
export type { SegmentReader } from './footer.ts'
export { encodeSealedHeader, type SegmentHeader } from './header.ts'
export { segmentLimits } from './limits.ts'
export { type ParsedSegment, parseSegment } from './parsed-segment.ts'
export { type PlannedSegment, type PlanRequest, planSnapshot, type SnapshotPlan } from './plan-snapshot.ts'
export { isCommitKind, isMaterialisingKind, markerNames, type Row, type RowKind, rowKind } from './row.ts'
export { parseSegmentName, segmentName } from './segment-name.ts'
export { decodeFrame } from './stored-block.ts'
export { type Decompress, frameBodyBytes } from './zstd-frame.ts'
