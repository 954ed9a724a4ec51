/**
 * The databases of an index as they outlive its processes: files in memory, which are copied when a process ends, so that
 * nothing that it has under way reaches the next one. A power cut takes back the newest transactions, as a whole.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { IndexStorageError, type IndexWriter, openIndexWriter } from '@tributary/index-store'
import type { Random } from '@tributary/testkit/disk'

const name = 'index.sqlite'
/** Transactions that a power cut may take back. */
const unsyncedMax = 8

/** A database with its tables and nothing in them: to make one takes longer than many a run. */
let template: string | undefined

/** To be called before the first run. */
export async function makeReady(): Promise<void> {
  if (template !== undefined) return
  const directory = newDirectory()
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, name)
  const writer = await openIndexWriter(path)
  await writer[Symbol.asyncDispose]()
  template = path
}

function newDirectory(): string {
  return mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'index-simulator-'))
}

/** Thrown in a process that was killed. Nobody sees what it does. */
export class ProcessGoneError extends IndexStorageError {}

export class Storage implements Disposable {
  readonly #random: Random
  readonly #base = newDirectory()
  #directory = ''
  #directories = 0
  /** Sizes of the write-ahead log of a database after its newest transactions; undefined since it was made durable. */
  readonly #sizes = new Map<string, number[] | undefined>()
  #callsLeft = Infinity
  /** Whose calls are taken. */
  #owner = {}
  /** It fails whoever calls it. */
  hasFailed = false

  constructor(random: Random) {
    this.#random = random
    this.#directory = this.#nextDirectory()
    mkdirSync(this.#directory)
  }

  /** Where the databases are. */
  get place(): string {
    return join(this.#directory, name)
  }

  /** The file of the generation that is read. */
  fileOf(generation: number): string {
    return generation === 1 ? this.place : `${this.place}.${generation}`
  }

  /** Opens a generation for the present process. */
  async open(generation: number): Promise<IndexWriter> {
    const path = this.fileOf(generation)
    const file = path.slice(this.#directory.length)
    this.#call(this.#owner)
    if (!existsSync(path)) {
      if (template === undefined) throw new Error('nothing is ready')
      cpSync(template, path)
      this.#sizes.delete(file)
    }
    if (!this.#sizes.has(file)) this.#sizes.set(file, [logBytes(path)])
    const owner = this.#owner
    const call = (): void => this.#call(owner)
    // A thread takes real time, in which any virtual time passes.
    const writer = await openIndexWriter(this.place, { generation, threadPagesMin: Infinity })
    return {
      write: async (work) => {
        call()
        const result = await writer.write(async (batch) => {
          call()
          const done = await work(guarded(batch, call))
          call()
          return done
        })
        if (owner === this.#owner) this.#committed(file, path)
        // It is there, and nobody learns of it.
        call()
        return result
      },
      makeDurable: async () => {
        call()
        await writer.makeDurable()
        this.#sizes.set(file, undefined)
        call()
      },
      [Symbol.asyncDispose]: async () => {
        await writer[Symbol.asyncDispose]()
        // Closing writes back all that is in the log.
        if (owner === this.#owner) this.#sizes.delete(file)
      },
    }
  }

  /** It takes so many more calls. */
  failAfter(calls: number): void {
    this.#callsLeft = calls
  }

  /** It takes nothing more of the process that ends. What that has under way does not reach the next one. */
  end(): void {
    this.#owner = {}
    const from = this.#directory
    this.#directory = this.#nextDirectory()
    // What SQLite shares between processes is made again from the log.
    cpSync(from, this.#directory, { recursive: true, filter: (path) => !path.endsWith('-shm') })
  }

  /** Makes the storage ready for the next process. */
  restart(isPowerLost: boolean): void {
    this.#callsLeft = Infinity
    this.hasFailed = false
    if (!isPowerLost) return
    for (const [file, sizes] of this.#sizes) {
      const log = `${this.#directory}${file}-wal`
      if (!sizes || sizes.length === 0 || !existsSync(log)) continue
      const kept = 1 + this.#random.below(sizes.length)
      sizes.length = kept
      truncateSync(log, sizes[kept - 1])
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#base, { recursive: true })
  }

  #nextDirectory(): string {
    return join(this.#base, String(++this.#directories))
  }

  /** @throws IndexStorageError */
  #call(owner: object): void {
    if (owner !== this.#owner) throw new ProcessGoneError('the process is gone')
    if (this.#callsLeft-- <= 0) this.hasFailed = true
    if (this.hasFailed) throw new IndexStorageError('the disk fails')
  }

  #committed(file: string, path: string): void {
    const sizes = this.#sizes.get(file)
    if (sizes) this.#sizes.set(file, [...sizes, logBytes(path)].slice(-unsyncedMax))
  }
}

function logBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

/** Has a function called before each call of an object, and of the objects in it. */
function guarded<T extends object>(target: T, call: () => void): T {
  return new Proxy(target, {
    get(of, key) {
      const value: unknown = Reflect.get(of, key, of)
      if (typeof value === 'object' && value !== null) return guarded(value, call)
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        call()
        return Reflect.apply(value, of, args)
      }
    },
  })
}
