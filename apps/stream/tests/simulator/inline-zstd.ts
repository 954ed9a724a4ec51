/**
 * Compresses on the event loop what Node compresses on a thread, so that no run of a simulator waits for real time. It
 * works by being imported before all that compresses, which is why importing it has an effect.
 */
import { syncBuiltinESMExports } from 'node:module'
import zlib, { zstdCompressSync, zstdDecompressSync, type ZstdOptions } from 'node:zlib'

type Work = (bytes: Buffer, options: ZstdOptions) => Buffer
type Done = (error: unknown, bytes?: Buffer) => void

const inline =
  (work: Work) =>
  (bytes: Buffer, options: ZstdOptions, done: Done): void => {
    try {
      process.nextTick(done, null, work(bytes, options))
    } catch (error) {
      process.nextTick(done, error)
    }
  }

Object.assign(zlib, { zstdCompress: inline(zstdCompressSync), zstdDecompress: inline(zstdDecompressSync) })
syncBuiltinESMExports()
