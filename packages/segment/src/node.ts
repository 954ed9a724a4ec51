export { ActiveSegment } from './active-segment.ts'
export type { Compactor } from './compact-segment.ts'
export { freeBytes } from './free-bytes.ts'
export {
  type LostRows,
  repairSegment,
  replaceMissing,
  type SegmentRepair,
  type SegmentReport,
  verifySegments,
} from './repair-segments.ts'
export { nodeDecompress, packFrame } from './node-zstd.ts'
export { SealedSegment } from './sealed-segment.ts'
export { type BlockLocation, SegmentDirectory, type SegmentDirectoryOptions } from './segment-directory.ts'
export type { DiskHandle, SegmentDisk } from './segment-disk.ts'
