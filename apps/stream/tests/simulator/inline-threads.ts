/**
 * Does on the event loop what Node does on threads or after a while: it compresses, it reads and replaces files. No run of a simulator
 * waits for real time then, and a seed is the same run each time. It works by being imported before all that compresses or
 * reads, which is why importing it has an effect.
 */
import fs, { promises } from 'node:fs'
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

const asPromise =
  <A extends unknown[], T>(call: (...args: A) => T) =>
  async (...args: A): Promise<T> =>
    call(...args)

/** A file that is open for reading, with the methods that are called. */
function openSync(path: string, flags: string): object {
  const fd = fs.openSync(path, flags)
  return {
    read: asPromise((bytes: Uint8Array, offset: number, length: number, position: number) => ({
      bytesRead: fs.readSync(fd, bytes, offset, length, position),
    })),
    stat: asPromise(() => fs.fstatSync(fd)),
    close: asPromise(() => fs.closeSync(fd)),
  }
}

Object.assign(promises, {
  open: asPromise(openSync),
  readdir: asPromise((path: string) => fs.readdirSync(path)),
  readFile: asPromise((path: string, encoding: BufferEncoding) => fs.readFileSync(path, encoding)),
  writeFile: asPromise((path: string, text: string) => fs.writeFileSync(path, text)),
  rename: asPromise((from: string, to: string) => fs.renameSync(from, to)),
})
// A timer without a time only lets other work through.
const { setTimeout: timer } = globalThis
const timerOrTurn = (call: () => void, ms?: number): unknown =>
  ms === undefined ? setImmediate(call) : timer(call, ms)
Object.assign(globalThis, { setTimeout: timerOrTurn })
Object.assign(zlib, { zstdCompress: inline(zstdCompressSync), zstdDecompress: inline(zstdDecompressSync) })
syncBuiltinESMExports()
