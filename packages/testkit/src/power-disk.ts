/**
 * A disk that loses its power: stands between a program and a real directory, knows what was synced, and gives back any
 * state that a power cut may leave. What was not synced is there, lost, torn between sectors of 512 bytes or in another
 * order; new, renamed and removed files are as before until their directory is synced.
 * Programs read the directory itself, or through the disk if reads are to take their time. Nothing is really synced, so
 * hundreds of runs take seconds.
 */
import fs from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import type { Random } from './random.ts'
import { StoredDirectory, StoredFile, type FileChange, type StoredNode } from './stored-file.ts'

/** Every call fails with this while the power is off. */
export class PowerCutError extends Error {
  override readonly name = 'PowerCutError'
}

export interface PowerDiskOptions {
  /** The directory that is watched, with all that is in it. What is there at first counts as synced. */
  root: string
  random: Random
  /** Called before each write and sync. A test may let time pass here. */
  onCall?: () => void
  /** When the answer to a read, write or sync comes that is not waited for. Default: with the next turn of the event loop. */
  later?: (answer: () => void) => void
}

/** A file that is open for reading. */
interface ReadHandle {
  read: (
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ) => Promise<{ bytesRead: number }>
  close: () => Promise<void>
}

interface Write {
  fd: number
  file: StoredFile | undefined
  change: FileChange & { at: number; bytes: Buffer }
}

interface OpenNode {
  node: StoredNode | undefined
  syncsByWriting: boolean
}

const { O_CREAT, O_DSYNC, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = fs.constants
const flagsOf: Record<string, number> = {
  r: O_RDONLY,
  'r+': O_RDWR,
  w: O_WRONLY | O_CREAT | O_TRUNC,
  'w+': O_RDWR | O_CREAT | O_TRUNC,
  wx: O_WRONLY | O_CREAT | O_EXCL,
}

export class PowerDisk {
  readonly #root: string
  readonly #random: Random
  readonly #onCall: () => void
  readonly #later: (answer: () => void) => void
  readonly #tree: StoredDirectory
  readonly #open = new Map<number, OpenNode>()
  /** Writes whose caller has not heard of them. */
  readonly #underWay = new Set<Write>()
  /** Writes that the program's end kept from being made. They may be on the disk only if the power went too. */
  readonly #unmade = new Set<Write>()
  #callsLeft = Infinity
  #isOff = false
  /** Syncs before the one that fails. */
  #syncsLeft = Infinity
  /** Of which a write or a sync failed since the program began. */
  readonly #failed = new Set<StoredNode | undefined>()
  #isMisused = false

  constructor({ root, random, onCall = () => {}, later = setImmediate }: PowerDiskOptions) {
    this.#root = root
    this.#random = random
    this.#onCall = onCall
    this.#later = later
    this.#tree = treeOf(root)
  }

  get isOff(): boolean {
    return this.#isOff
  }

  /** The power goes with the call after this number of calls. */
  cutAfter(calls: number): void {
    this.#callsLeft = calls
  }

  cut(): void {
    if (this.#isOff) return
    this.#isOff = true
    for (const write of this.#underWay) {
      if (this.#random.next() < 0.5) this.#make(write)
      else this.#unmade.add(write)
    }
    this.#underWay.clear()
  }

  /**
   * The next write that syncs, or the next sync, fails. What it should have brought to the disk is read all the same, and
   * no later sync brings it there: so Linux does it.
   * @param syncs that come before it, and do not fail.
   */
  failNext(syncs: number = 0): void {
    this.#syncsLeft = syncs
  }

  /** The failure that `failNext` asked for is still to come. */
  get failsNext(): boolean {
    return this.#syncsLeft < Infinity
  }

  /** A write or a sync failed since the program began, as `failNext` asked for. */
  get hasFailedWrite(): boolean {
    return this.#failed.size > 0
  }

  /** The program wrote on to a file of which a write or a sync had failed. What the file holds then, nobody knows. */
  get isMisused(): boolean {
    return this.#isMisused
  }

  /** Files that the program has open. */
  get openFiles(): number {
    return this.#open.size
  }

  /** As when only the program had been killed: all that it wrote is there, and no more durable than before. */
  revive(): void {
    for (const { file, change } of this.#unmade) file?.takeBack(change)
    this.#unmade.clear()
    this.closeAll()
    this.#failed.clear()
    this.#callsLeft = Infinity
    this.#isOff = false
  }

  /**
   * Writes a state that the power cut may have left into a directory that does not exist yet.
   * @param arrives how likely something is there that was not synced. By default nothing and everything are as likely
   *   as something in between.
   */
  materialize(
    target: string,
    arrives: number = this.#random.pick([0, 1, 0.5, 0.9, this.#random.next()]),
  ): void {
    const contents = new Map<StoredFile, Buffer>()
    const write = (directory: StoredDirectory, path: string): void => {
      fs.mkdirSync(path)
      for (const [name, node] of directory.afterPowerCut(this.#random, arrives)) {
        if (node instanceof StoredDirectory) write(node, join(path, name))
        else {
          const content = contents.get(node) ?? node.afterPowerCut(this.#random, arrives)
          contents.set(node, content)
          fs.writeFileSync(join(path, name), content)
        }
      }
    }
    write(this.#tree, target)
  }

  /** Closes what the program left open. */
  closeAll(): void {
    for (const fd of this.#open.keys()) fs.closeSync(fd)
    this.#open.clear()
  }

  openSync(path: string, flags: string | number): number {
    this.#call()
    const bits = typeof flags === 'number' ? flags : flagsOf[flags]
    if (bits === undefined) throw new Error(`flags ${flags} are not known`)
    const fd = fs.openSync(path, bits & ~O_DSYNC)
    const place = this.#place(path)
    let node = this.#nodeAt(path)
    if (place && !node) {
      if ((bits & O_CREAT) === 0) throw new Error(`${path} was not made through this disk`)
      node = new StoredFile()
      place.directory.change([[place.name, node]])
    } else if (node instanceof StoredFile && (bits & O_TRUNC) !== 0)
      node.change({ length: 0, isSynced: false })
    this.#open.set(fd, { node, syncsByWriting: (bits & O_DSYNC) !== 0 })
    return fd
  }

  open(path: string, flags: string | number, done: (error: Error | null, fd: number) => void): void {
    this.#answer(() => this.openSync(path, flags), done)
  }

  /** Works without power too: what runs on has to end. */
  closeSync(fd: number): void {
    // After `closeAll` the number may be that of another file.
    if (this.#open.delete(fd)) fs.closeSync(fd)
  }

  readonly promises: { open: (path: string, flags: 'r') => Promise<ReadHandle> } = {
    open: async (path) => {
      const fd = await this.#answered(() => fs.openSync(path, 'r'))
      this.#open.set(fd, { node: undefined, syncsByWriting: false })
      return {
        read: async (...place) => await this.read(fd, ...place),
        close: async () => this.closeSync(fd),
      }
    },
  }

  async read(
    fd: number,
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number }> {
    return await this.#answered(() => {
      // After `closeAll` the number may be that of another file.
      if (!this.#open.has(fd)) throw new PowerCutError('the file is closed')
      return { bytesRead: fs.readSync(fd, bytes, offset, length, position) }
    })
  }

  writevSync(fd: number, buffers: readonly Buffer[], position: number): number {
    const write = this.#begin(fd, buffers, position)
    this.#call()
    return this.#end(write)
  }

  writev(
    fd: number,
    buffers: readonly Buffer[],
    position: number,
    done: (error: Error | null, bytes: number) => void,
  ): void {
    let write: Write | undefined
    try {
      write = this.#begin(fd, buffers, position)
      this.#call()
    } catch {
      // The answer comes later, as that of a write does.
    }
    this.#later(() => {
      if (this.#isOff || !write) return done(new PowerCutError('the power is off'), 0)
      let made: number
      try {
        made = this.#end(write)
      } catch (error) {
        return done(error as Error, 0) // as `#failIfDue` throws it
      }
      return done(null, made)
    })
  }

  fsyncSync(fd: number): void {
    this.#call()
    this.#failIfDue(fd)
    this.#open.get(fd)?.node?.sync()
  }

  fsync(fd: number, done: (error: Error | null) => void): void {
    this.#answer(() => this.fsyncSync(fd), done)
  }

  fdatasync(fd: number, done: (error: Error | null) => void): void {
    this.fsync(fd, done)
  }

  ftruncateSync(fd: number, length: number): void {
    this.#call()
    this.#fileOf(fd)?.change({ length, isSynced: false })
    fs.ftruncateSync(fd, length)
  }

  ftruncate(fd: number, length: number, done: (error: Error | null) => void): void {
    this.#answer(() => this.ftruncateSync(fd, length), done)
  }

  writeFile(path: string, text: string, done: (error: Error | null) => void): void {
    this.#answer(() => this.#writeFile(path, text), done)
  }

  #writeFile(path: string, text: string): void {
    const fd = this.openSync(path, 'w')
    try {
      this.writevSync(fd, [Buffer.from(text)], 0)
    } finally {
      this.closeSync(fd)
    }
  }

  rename(from: string, to: string, done: (error: Error | null) => void): void {
    this.#answer(() => this.renameSync(from, to), done)
  }

  renameSync(from: string, to: string): void {
    this.#call()
    fs.renameSync(from, to)
    const [old, place] = [this.#place(from), this.#place(to)]
    const node = this.#nodeAt(from)
    if (!old || !place || !node) throw new Error(`${from} was not made through this disk`)
    if (old.directory !== place.directory) throw new Error('only names within one directory are changed')
    old.directory.change([
      [old.name, undefined],
      [place.name, node],
    ])
  }

  unlink(path: string, done: (error: Error | null) => void): void {
    this.#answer(() => this.rmSync(path), done)
  }

  rmSync(path: string): void {
    this.#call()
    fs.rmSync(path)
    const place = this.#place(path)
    if (place?.directory.names.has(place.name)) place.directory.change([[place.name, undefined]])
  }

  copyFile(from: string, to: string, mode: number, done: (error: Error | null) => void): void {
    this.#answer(() => this.#copyFile(from, to, mode), done)
  }

  #copyFile(from: string, to: string, mode: number): void {
    this.#call()
    fs.copyFileSync(from, to, mode)
    const place = this.#place(to)
    if (!place) return
    const file = new StoredFile()
    file.change({ at: 0, bytes: fs.readFileSync(to), isSynced: false })
    place.directory.change([[place.name, file]])
  }

  mkdirSync(path: string, options: { recursive: true }): string | undefined {
    this.#call()
    const made = fs.mkdirSync(path, options)
    const inside = relative(this.#root, path)
    if (inside.startsWith('..')) return made
    let directory = this.#tree
    for (const name of inside === '' ? [] : inside.split(sep)) {
      let next = directory.names.get(name)
      if (!next) directory.change([[name, (next = new StoredDirectory())]])
      if (!(next instanceof StoredDirectory)) throw new Error(`${name} is no directory`)
      directory = next
    }
    return made
  }

  /** Makes a call when the answer to it comes. */
  #answer<T>(call: () => T, done: (error: Error | null, answer: T) => void): void {
    this.#later(() => {
      let answer: T
      try {
        answer = call()
      } catch (error) {
        return done(error as Error, undefined as T) // as `#call` and Node throw it; an answer with an error is not looked at
      }
      done(null, answer)
    })
  }

  /** What is found out when the answer comes. Reads work without power too, because they change nothing. */
  async #answered<T>(find: () => T): Promise<T> {
    return await new Promise((resolve, reject) =>
      this.#later(() => {
        try {
          resolve(find())
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)))
        }
      }),
    )
  }

  /** Counts a call. @throws PowerCutError */
  #call(): void {
    this.#onCall()
    if (this.#callsLeft-- <= 0) this.cut()
    if (this.#isOff) throw new PowerCutError('the power is off')
  }

  /** Notes bytes that are on their way: from now on they may arrive. */
  #begin(fd: number, buffers: readonly Buffer[], at: number): Write {
    if (this.#isOff) throw new PowerCutError('the power is off')
    this.#isMisused ||= this.#failed.has(this.#open.get(fd)?.node)
    const write = {
      fd,
      file: this.#fileOf(fd),
      change: { at, bytes: Buffer.concat(buffers), isSynced: false },
    }
    write.file?.change(write.change)
    this.#underWay.add(write)
    return write
  }

  #end(write: Write): number {
    this.#underWay.delete(write)
    const made = this.#make(write)
    if (this.#open.get(write.fd)?.syncsByWriting) {
      this.#failIfDue(write.fd)
      write.file?.sync(write.change)
    }
    return made
  }

  #failIfDue(fd: number): void {
    if (this.#syncsLeft-- > 0) return
    this.#syncsLeft = Infinity
    this.#fileOf(fd)?.giveUp()
    this.#failed.add(this.#open.get(fd)?.node)
    throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
  }

  #make({ fd, change }: Write): number {
    return fs.writevSync(fd, [change.bytes], change.at)
  }

  #fileOf(fd: number): StoredFile | undefined {
    const node = this.#open.get(fd)?.node
    return node instanceof StoredFile ? node : undefined
  }

  /** Undefined for what is not watched. */
  #place(path: string): { directory: StoredDirectory; name: string } | undefined {
    const directory = this.#nodeAt(dirname(path))
    return directory instanceof StoredDirectory ? { directory, name: basename(path) } : undefined
  }

  #nodeAt(path: string): StoredNode | undefined {
    const inside = relative(this.#root, path)
    if (inside === '') return this.#tree
    if (inside.startsWith('..')) return undefined
    let node: StoredNode | undefined = this.#tree
    for (const name of inside.split(sep))
      node = node instanceof StoredDirectory ? node.names.get(name) : undefined
    return node
  }
}

/** A directory as it is, all of it synced. */
function treeOf(path: string): StoredDirectory {
  const directory = new StoredDirectory()
  for (const entry of fs.readdirSync(path, { withFileTypes: true })) {
    const inside = join(path, entry.name)
    directory.change([
      [entry.name, entry.isDirectory() ? treeOf(inside) : new StoredFile(fs.readFileSync(inside))],
    ])
  }
  directory.sync()
  return directory
}
