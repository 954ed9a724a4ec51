import * as zlib from 'node:zlib'
import { decodeFrame } from '@tributary/segment'
import { decompressFrame } from '@tributary/zstd-dictionary/decoder'
import { blockBodyBytesMax, type Runtime } from './runtime.ts'

/** Decodes blocks on Node's thread pool. Node before 22.15 has no zstd, and gets a slower decoder in JavaScript. */
export const nodeDecoder: Runtime['decode'] = await chooseDecoder()

async function chooseDecoder(): Promise<Runtime['decode']> {
  if ('zstdDecompress' in zlib) {
    const { decodeFrameAsync } = await import('@tributary/segment/zstd')
    return (frame) => decodeFrameAsync(frame, blockBodyBytesMax)
  }
  return (frame) => decodeFrame(frame, decompressFrame, blockBodyBytesMax)
}
