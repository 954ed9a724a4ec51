/** Node's own zstd for the reading functions of this package, without what writes files. */
export { decodeFrameAsync } from './node-zstd.ts'
