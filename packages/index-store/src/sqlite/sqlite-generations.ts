/**
 * Generations of an index in SQLite: the first is the file at the path, the others have their number after its name. The
 * pointer and the request are replaced as whole files, so a kill or a power cut leaves the old one or the new one.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import Sqlite from 'better-sqlite3'
import {
  type GenerationProgress,
  type Generations,
  GenerationsLeftError,
  readGeneration,
  requireCurrent,
} from '../generations.ts'
import { IndexStorageError } from '../storage-error.ts'
import { onSqlite } from './storage-fault.ts'

/** What is beside the file of a generation and means nothing without it. */
const companions = ['', '-wal', '-shm', '.lock'] as const

/** The file of a generation. */
export function generationPath(path: string, generation: number): string {
  return generation === 1 ? path : `${path}.${generation}`
}

/** The file that the writer of a database locks. */
export function lockPathOf(path: string): string {
  return `${path}.lock`
}

/** The generation that is read. */
export function currentGeneration(path: string): number {
  return readNumber(pointerOf(path)) ?? 1
}

/** Removes a file that need not be there. */
export type RemoveFile = (file: string) => Promise<void> | void

/** By a thread: a file of gigabytes takes seconds. */
const removeAside: RemoveFile = async (file) => await rm(file, { force: true })

export class SqliteGenerations implements Generations {
  readonly #path: string
  readonly #removeFile: RemoveFile

  constructor(path: string, removeFile: RemoveFile = removeAside) {
    this.#path = path
    this.#removeFile = removeFile
  }

  async current(): Promise<number> {
    return currentGeneration(this.#path)
  }

  async isRebuildAsked(): Promise<boolean> {
    return (readNumber(requestOf(this.#path)) ?? 0) > currentGeneration(this.#path)
  }

  async askForRebuild(): Promise<void> {
    const current = currentGeneration(this.#path)
    const file = generationPath(this.#path, current)
    if (!existsSync(file)) throw new IndexStorageError(`there is no index database at ${this.#path}`)
    // Of another file nothing is asked.
    cursorOf(file)
    replaceFile(requestOf(this.#path), current + 1)
  }

  async switchTo(generation: number): Promise<void> {
    replaceFile(pointerOf(this.#path), generation)
  }

  async keepOnly(generations: readonly number[]): Promise<GenerationsLeftError | undefined> {
    requireCurrent(await this.current(), generations)
    // A kill in the middle of this has left some of the files, and the first of them is the database.
    const others = this.#generations(companions).filter((each) => !generations.includes(each))
    const faults = new Map<number, Error>()
    for (const generation of others) {
      const fault = await this.#remove(generationPath(this.#path, generation))
      if (fault !== undefined) faults.set(generation, fault)
    }
    return GenerationsLeftError.of(faults)
  }

  /** Resolves with why a file is still there. */
  async #remove(file: string): Promise<Error | undefined> {
    try {
      // The database goes first: what is beside it means nothing without it.
      for (const end of companions) await this.#removeFile(`${file}${end}`)
      return undefined
    } catch (error) {
      return error as Error // as Node throws it
    }
  }

  async progress(): Promise<GenerationProgress[]> {
    return this.#generations().map((generation) => ({
      generation,
      cursor: cursorOf(generationPath(this.#path, generation)),
    }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Nothing is kept open.
  }

  /** Those of which a file with one of these ends is there, in order. */
  #generations(ends: readonly string[] = ['']): number[] {
    const directory = dirname(this.#path)
    if (!existsSync(directory)) return []
    const names = readdirSync(directory)
    const numbers = ends.flatMap((end) => names.map((name) => this.#generationOf(name, end)))
    const next = currentGeneration(this.#path) + 1
    // A larger number is not ours, but the day of a copy, for instance.
    const ours = numbers.flatMap((number) => (number !== undefined && number <= next ? [number] : []))
    return [...new Set(ours)].toSorted((a, b) => a - b)
  }

  /** The generation that a file with this end belongs to; undefined for other files. */
  #generationOf(name: string, end: string): number | undefined {
    const first = basename(this.#path)
    if (name === `${first}${end}`) return 1
    if (!name.startsWith(`${first}.`) || !name.endsWith(end)) return undefined
    const number = readGeneration(name.slice(first.length + 1, name.length - end.length))
    return number === 1 ? undefined : number
  }
}

function pointerOf(path: string): string {
  return `${path}.generation`
}

function requestOf(path: string): string {
  return `${path}.rebuild`
}

/** Undefined when the file is not there. */
function readNumber(file: string): number | undefined {
  if (!existsSync(file)) return undefined
  const number = readGeneration(readFileSync(file, 'utf8'))
  if (number === undefined) throw new IndexStorageError(`${file} does not name a generation`)
  return number
}

function replaceFile(file: string, number: number): void {
  writeFileSync(`${file}.new`, `${number}\n`, { flush: true })
  renameSync(`${file}.new`, file)
  const directory = openSync(dirname(file), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

/** 0 for a generation without tables, and for one that was removed meanwhile. */
function cursorOf(file: string): number {
  const sqlite = onSqlite(() => openWhileThere(file), file)
  if (sqlite === undefined) return 0
  try {
    const newest = onSqlite(() => {
      const hasTable = sqlite.prepare("select 1 from sqlite_schema where name = 'cursors'").get()
      if (hasTable === undefined) return 0
      return sqlite.prepare("select max(cursor) from cursors where source like 'stream:%'").pluck().get()
    }, file)
    return Number(newest ?? 0)
  } finally {
    sqlite.close()
  }
}

function openWhileThere(file: string): Sqlite.Database | undefined {
  try {
    return new Sqlite(file, { readonly: true })
  } catch (error) {
    if (existsSync(file)) throw error
    return undefined
  }
}
