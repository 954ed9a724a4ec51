/**
 * Does on the event loop what Node does on threads or after a while: it compresses, it reads and replaces files, it verifies
 * repositories. No run of a simulator
 * waits for real time then, and a seed is the same run each time. It works by being imported before all that compresses or
 * reads, which is why importing it has an effect.
 */
import { EventEmitter } from 'node:events'
import fs, { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import workerThreads, { type Transferable } from 'node:worker_threads'
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

/** A thread that runs `repo-thread.ts`. All of them run the one that this process has imported, each with its own ids. */
class InlineThread extends EventEmitter {
  static #last = 0
  readonly #number = ++InlineThread.#last
  readonly #ids = new Set<number>()

  postMessage(message: { id: number; to?: string } | 'end', transferred: Transferable[] = []): void {
    if (message === 'end') {
      this.#forget()
      queueMicrotask(() => this.emit('exit', 0))
      return
    }
    const { id, ...rest } = structuredClone(message, { transfer: transferred })
    const own = this.#number * idsMax + id
    if (message.to === 'forget') this.#ids.delete(own)
    else this.#ids.add(own)
    queueMicrotask(() => {
      answerTo = (reply) => this.emit('message', { ...reply, id })
      handle({ ...rest, id: own })
    })
  }

  ref(): void {
    // There is nothing that keeps the process.
  }

  unref(): void {
    // As above.
  }

  async terminate(): Promise<number> {
    this.removeAllListeners()
    this.#forget()
    return 0
  }

  #forget(): void {
    for (const id of this.#ids) handle({ to: 'forget', id })
  }
}

/** Repositories of one thread. */
const idsMax = 1_000_000
let handle: (message: object) => void = () => {}
let answerTo: (reply: object) => void = () => {}
const parentPort = {
  on: (_: 'message', handler: typeof handle) => (handle = handler),
  postMessage: (reply: object, transferred: Transferable[]) =>
    answerTo(structuredClone(reply, { transfer: transferred })),
}
Object.assign(workerThreads, { Worker: InlineThread, parentPort })
// A timer without a time only lets other work through.
const { setTimeout: timer } = globalThis
const timerOrTurn = (call: () => void, ms?: number): unknown =>
  ms === undefined ? setImmediate(call) : timer(call, ms)
Object.assign(globalThis, { setTimeout: timerOrTurn })
Object.assign(zlib, { zstdCompress: inline(zstdCompressSync), zstdDecompress: inline(zstdDecompressSync) })
syncBuiltinESMExports()
