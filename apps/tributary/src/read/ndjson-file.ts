/**
 * A file of events that a backfill can be continued into. Beside it lies a note of how far file and archive agree; what
 * a broken run wrote beyond the note is cut off when the next one begins, so that every event is in the file once.
 */
import { type FileHandle, open, readFile, rename, stat } from 'node:fs/promises'
import { type ClientEvent, NdjsonWriter, type StreamError } from '@tributary/client/node'
import { isNote, type OutputFile, OutputFileError } from './output-file.ts'
import { lockOutput } from './output-lock.ts'

interface Note {
  cursor: number
  bytes: number
  /** Server and filter: another selection does not belong into the same file. */
  selection: string
}

/** Events are synced and noted after this many bytes. */
const syncEveryBytes = 16 * 1024 * 1024

export class NdjsonFile implements OutputFile {
  readonly #path: string
  readonly #handle: FileHandle
  readonly #lock: Disposable
  /** One makes lines while those of the other are written. */
  #writers: readonly [NdjsonWriter, NdjsonWriter] = [new NdjsonWriter(), new NdjsonWriter()]
  /** The write that is under way, or the last one. */
  #writing: Promise<void> = Promise.resolve()
  /** What is durable. */
  #note: Note
  #bytes: number
  #cursor: number
  /** The sync that is under way, or the last one. Events are written meanwhile. */
  #syncing: Promise<void> = Promise.resolve()
  /** Where the file ended when it began. */
  #syncingBytes: number

  private constructor(path: string, { handle, lock }: { handle: FileHandle; lock: Disposable }, note: Note) {
    this.#path = path
    this.#handle = handle
    this.#lock = lock
    this.#note = note
    this.#bytes = note.bytes
    this.#syncingBytes = note.bytes
    this.#cursor = note.cursor
  }

  /** Creates the file, or opens it where the last run left it. Throws OutputFileError, and what the file system does. */
  static async open(path: string, selection: string): Promise<NdjsonFile> {
    using stack = new DisposableStack()
    const lock = stack.use(lockOutput(path))
    const file = await NdjsonFile.#open(path, selection, lock)
    stack.move()
    return file
  }

  static async #open(path: string, selection: string, lock: Disposable): Promise<NdjsonFile> {
    const note = await readNote(path)
    const bytes = await sizeOf(path)
    // A note whose file was removed is about nothing any more.
    if (note === undefined || bytes === undefined) {
      try {
        // An empty file without a note is of a run that was killed before it wrote the note.
        const handle = await open(path, bytes === 0 ? 'a' : 'ax')
        const file = new NdjsonFile(path, { handle, lock }, { cursor: 0, bytes: 0, selection })
        await file.sync()
        return file
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
        throw new OutputFileError(
          `${path} exists and is no backfill that can be continued; name another file`,
        )
      }
    }
    if (note.selection !== selection) {
      throw new OutputFileError(
        `${path} was made from another server or with other filters; name another file`,
      )
    }
    if (bytes < note.bytes) {
      throw new OutputFileError(`${path} is shorter than the last run left it; remove it to start again`)
    }
    const handle = await open(path, 'a')
    await handle.truncate(note.bytes)
    return new NdjsonFile(path, { handle, lock }, note)
  }

  get cursor(): number {
    return this.#cursor
  }

  /** Begins to write. A failure is met at the next call, or at `sync`. */
  async append(events: readonly ClientEvent[], cursor: number): Promise<readonly StreamError[]> {
    const [writer, other] = this.#writers
    const { bytes, malformed } = writer.lines(events)
    await this.#writing
    this.#writers = [other, writer]
    this.#writing = this.#handle.appendFile(bytes)
    this.#writing.catch(() => undefined)
    this.#bytes += bytes.length
    this.#cursor = cursor
    if (this.#bytes - this.#syncingBytes >= syncEveryBytes) await this.#beginSync()
    return malformed
  }

  /** Makes everything so far durable, then notes it. */
  async sync(): Promise<void> {
    await this.#beginSync()
    await this.#syncing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A caller who wanted to know how it went has waited for it.
    await this.#writing.catch(() => undefined)
    await this.#syncing.catch(() => undefined)
    await this.#handle.close()
    this.#lock[Symbol.dispose]()
  }

  /** Begins to make everything so far durable, once the sync before is done. A failure is met at the next sync. */
  async #beginSync(): Promise<void> {
    await this.#syncing
    await this.#writing
    this.#syncingBytes = this.#bytes
    this.#syncing = this.#makeDurable({ ...this.#note, bytes: this.#bytes, cursor: this.#cursor })
    this.#syncing.catch(() => undefined)
  }

  async #makeDurable(note: Note): Promise<void> {
    await this.#handle.datasync()
    await using file = await open(`${noteFile(this.#path)}.tmp`, 'w')
    await file.writeFile(JSON.stringify(note))
    await file.sync()
    await rename(`${noteFile(this.#path)}.tmp`, noteFile(this.#path))
    this.#note = note
  }
}

/** Undefined when there is no such file. What is no file, such as a device, may take or give any number of bytes. */
async function sizeOf(path: string): Promise<number | undefined> {
  try {
    const found = await stat(path)
    return found.isFile() ? found.size : Infinity
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

async function readNote(path: string): Promise<Note | undefined> {
  try {
    const note: unknown = JSON.parse(await readFile(noteFile(path), 'utf8'))
    if (isNote<Note>(note, 'cursor', 'bytes')) return note
    throw new SyntaxError('it is no note')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new OutputFileError(`${noteFile(path)} cannot be read; remove the file and it to start again`, {
      cause: error,
    })
  }
}

function noteFile(path: string): string {
  return `${path}.progress`
}
