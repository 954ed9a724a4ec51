export { ActiveSegment } from './active-segment.ts'
export { nodeDecompress, packFrame } from './node-zstd.ts'
