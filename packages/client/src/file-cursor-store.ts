import { open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { CursorStore } from './checkpoint.ts'
import { CursorStoreError } from './errors.ts'
import { isObject } from './json.ts'

/**
 * A cursor in a small JSON file, replaced atomically and synced. It names the server that the cursor belongs to,
 * because sequence numbers of one server mean nothing to another. One process at a time may use it.
 */
export class FileCursorStore implements CursorStore {
  readonly #path: string
  readonly #server: string

  /** `server` is the address that the cursor belongs to. */
  constructor(path: string, server: string) {
    this.#path = path
    this.#server = server
  }

  /** @throws CursorStoreError when the file is damaged or belongs to another server. */
  async load(): Promise<number | undefined> {
    let text: string
    try {
      text = await readFile(this.#path, 'utf8')
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
    const { cursor, server } = readCursorFile(text, this.#path)
    if (server !== this.#server) {
      throw new CursorStoreError(`${this.#path} holds a cursor of ${server}, not of ${this.#server}`)
    }
    return cursor
  }

  /** A cursor before the one in the file is not written. @throws as `load`. */
  async save(cursor: number): Promise<void> {
    const saved = await this.load()
    if (saved !== undefined && saved >= cursor) return
    const temporary = `${this.#path}.tmp`
    const file = await open(temporary, 'w')
    try {
      await file.writeFile(`${JSON.stringify({ cursor, server: this.#server })}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, this.#path)
    const directory = await open(dirname(this.#path), 'r')
    try {
      await directory.sync()
    } finally {
      await directory.close()
    }
  }
}

function readCursorFile(text: string, path: string): { cursor: number; server: string } {
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) {
      const { cursor, server } = value
      if (
        typeof cursor === 'number' &&
        Number.isSafeInteger(cursor) &&
        cursor >= 0 &&
        typeof server === 'string'
      ) {
        return { cursor, server }
      }
    }
  } catch {
    // Reported below like every other damage.
  }
  throw new CursorStoreError(`${path} is not a cursor file; remove it to start from the beginning`)
}
