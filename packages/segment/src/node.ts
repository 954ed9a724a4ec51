export { ActiveSegment } from './active-segment.ts'
export { nodeDecompress, packFrame } from './node-zstd.ts'
export { SealedSegment } from './sealed-segment.ts'
export { type BlockLocation, SegmentDirectory, type SegmentDirectoryOptions } from './segment-directory.ts'
