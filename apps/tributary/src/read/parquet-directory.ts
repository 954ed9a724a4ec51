/**
 * A directory of Parquet files that a backfill can be continued into. What a Parquet file holds stands at its end, so it
 * cannot be added to: each part is a file of its own, which is written under another name, synced, and then renamed. A
 * note says how many parts there are and how far they reach. A part beyond the note is of a run that broke off, and is
 * made again, so that every event is there once.
 */
import { constants as fileFlags } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import type { ClientEvent, StreamError } from '@tributary/client/node'
import { type ParquetWriteOptions, parquetWriteBuffer } from 'hyparquet-writer'
import { type EventColumns, rowsOf } from './event-columns.ts'
import { isNote, type OutputFile, OutputFileError } from './output-file.ts'
import { lockOutput } from './output-lock.ts'

interface Note {
  /** The parts hold everything up to this seq. */
  cursor: number
  parts: number
  /** Server and filter: another selection does not belong into the same directory. */
  selection: string
}

/**
 * A part is complete with so many rows, or so many characters in them. Memory holds one part, and its bytes once more. A
 * run that is killed repeats no more than this.
 */
const partMax = { rows: 20_000, characters: 32 * 1024 * 1024 }
/** Readers of such directories pass over names that begin with `_`. */
const names = { note: '_progress.json', unfinished: '_unfinished' }
const partPattern = /^part-(\d{6,})\.parquet$/

type Column = Exclude<keyof EventColumns, 'seq' | 'time'>
const texts: readonly Column[] = [
  'kind',
  'did',
  'operation',
  'collection',
  'rkey',
  'rev',
  'cid',
  'record',
  'body',
]
/** Every event has these. The other texts may be absent. */
const always: ReadonlySet<Column> = new Set(['kind', 'did'])

const schema: NonNullable<ParquetWriteOptions['schema']> = [
  { name: 'root', num_children: texts.length + 2 },
  { name: 'seq', type: 'INT64', repetition_type: 'REQUIRED' },
  { name: 'time', type: 'INT64', converted_type: 'TIMESTAMP_MICROS', repetition_type: 'OPTIONAL' },
  ...texts.map((name) => ({
    name,
    type: 'BYTE_ARRAY' as const,
    converted_type: 'UTF8' as const,
    repetition_type: always.has(name) ? ('REQUIRED' as const) : ('OPTIONAL' as const),
  })),
]

export class ParquetDirectory implements OutputFile {
  readonly #path: string
  readonly #lock: Disposable
  #note: Note
  #cursor: number
  #rows: EventColumns[] = []
  #characters = 0

  private constructor(path: string, lock: Disposable, note: Note) {
    this.#path = path
    this.#lock = lock
    this.#note = note
    this.#cursor = note.cursor
  }

  /**
   * Creates the directory, or opens it where the last run left it.
   * @throws OutputFileError, and what the file system does.
   */
  static async open(path: string, selection: string): Promise<ParquetDirectory> {
    using stack = new DisposableStack()
    const lock = stack.use(lockOutput(path))
    const directory = await ParquetDirectory.#open(path, selection, lock)
    stack.move()
    return directory
  }

  static async #open(path: string, selection: string, lock: Disposable): Promise<ParquetDirectory> {
    const found = (await filesOf(path)).filter((name) => name !== names.unfinished)
    if (!found.includes(names.note)) {
      if (found.length > 0) throw foreign(path)
      const directory = new ParquetDirectory(path, lock, { cursor: 0, parts: 0, selection })
      await directory.#write(names.note, JSON.stringify(directory.#note))
      return directory
    }
    const note = await readNote(path)
    if (note.selection !== selection) {
      throw new OutputFileError(
        `${path} was made from another server or with other filters; name another directory`,
      )
    }
    for (let part = 1; part <= note.parts; part++) {
      if (!found.includes(partName(part)))
        throw new OutputFileError(`${path} has lost ${partName(part)}; remove ${path} to start again`)
    }
    const beyond = found.filter((name) => Number(partPattern.exec(name)?.[1] ?? 0) > note.parts)
    for (const name of beyond) await rm(join(path, name))
    return new ParquetDirectory(path, lock, note)
  }

  get cursor(): number {
    return this.#cursor
  }

  async append(events: readonly ClientEvent[], cursor: number): Promise<readonly StreamError[]> {
    const { rows, malformed } = rowsOf(events)
    for (const row of rows) {
      // A seq that is read twice, after a connection that ended, is the same event.
      if (row.seq <= this.#cursor) continue
      this.#rows.push(row)
      this.#characters += (row.record?.length ?? 0) + (row.body?.length ?? 0)
    }
    this.#cursor = Math.max(this.#cursor, cursor)
    if (this.#rows.length >= partMax.rows || this.#characters >= partMax.characters) await this.sync()
    return malformed
  }

  /** Makes a part of what there is, and notes it when it is durable. */
  async sync(): Promise<void> {
    if (this.#cursor === this.#note.cursor) return
    let { parts } = this.#note
    if (this.#rows.length > 0) {
      parts++
      await this.#write(partName(parts), partOf(this.#rows))
    }
    this.#rows = []
    this.#characters = 0
    this.#note = { ...this.#note, cursor: this.#cursor, parts }
    await this.#write(names.note, JSON.stringify(this.#note))
  }

  /** Leaves out what was not synced. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#lock[Symbol.dispose]()
  }

  /** The file has all of its bytes, or does not have its name. It is durable afterwards. */
  async #write(name: string, content: string | Uint8Array): Promise<void> {
    const unfinished = join(this.#path, names.unfinished)
    {
      await using file = await open(unfinished, 'w')
      await file.writeFile(content)
      await file.sync()
    }
    await rename(unfinished, join(this.#path, name))
    await syncDirectory(this.#path)
  }
}

async function syncDirectory(path: string): Promise<void> {
  // Windows cannot sync a directory, and does not need it.
  if (process.platform === 'win32') return
  await using directory = await open(path, fileFlags.O_RDONLY)
  await directory.sync()
}

function partName(part: number): string {
  return `part-${String(part).padStart(6, '0')}.parquet`
}

/** The bytes of a Parquet file with these rows, compressed with zstd. */
function partOf(rows: readonly EventColumns[]): Uint8Array {
  const bytes = parquetWriteBuffer({
    schema,
    codec: 'ZSTD',
    compressors: { ZSTD: (input) => zstdCompressSync(input) },
    createdBy: 'tributary',
    columnData: [
      { name: 'seq', data: rows.map(({ seq }) => BigInt(seq)) },
      { name: 'time', data: rows.map(({ time }) => microsOf(time)) },
      ...texts.map((name) => ({ name, data: rows.map((row) => row[name]) })),
    ],
  })
  return new Uint8Array(bytes)
}

/**
 * Microseconds since 1970 of a time with up to six digits after the second, in UTC. Null for what is no time, which a
 * stream of somebody else may send.
 */
function microsOf(time: string): bigint | null {
  const millis = Date.parse(time)
  if (Number.isNaN(millis)) return null
  const micros = /\.\d{3}(\d{1,3})\d*Z$/.exec(time)?.[1] ?? ''
  return BigInt(millis) * 1000n + BigInt(micros.padEnd(3, '0'))
}

/** Names in the directory, which is made if there is none. */
async function filesOf(path: string): Promise<string[]> {
  try {
    await mkdir(path)
    await syncDirectory(dirname(resolve(path)))
    return []
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  try {
    return await readdir(path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOTDIR')) throw error
    throw foreign(path)
  }
}

function foreign(path: string): OutputFileError {
  return new OutputFileError(
    `${path} exists and is no backfill that can be continued; name another directory`,
  )
}

async function readNote(path: string): Promise<Note> {
  const file = join(path, names.note)
  try {
    const note: unknown = JSON.parse(await readFile(file, 'utf8'))
    if (isNote<Note>(note, 'cursor', 'parts')) return note
    throw new SyntaxError('it is no note')
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new OutputFileError(`${file} cannot be read; remove ${path} to start again`, { cause: error })
  }
}
