import { createReadStream } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { CursorStoreError } from '../errors.ts'
import { FileCursorStore } from '../file-cursor-store.ts'
import { isObject } from '../json.ts'
import { inSeqOrder, isParkedEvent, type ParkedEvent, type RunnerStore } from './runner-store.ts'

/** What is read of a file at a time. */
const readBytes = 1_048_576

/**
 * A cursor file, and beside it `<path>.parked`: a line of JSON for each event that was parked or unparked, synced. Each start
 * writes that file again with what is still parked.
 */
export class FileStore implements RunnerStore {
  readonly #cursor: FileCursorStore
  readonly #path: string
  /** The last write of the file of parked events: lines must not mix. */
  #written: Promise<void> = Promise.resolve()

  /** `server` is the address that the cursor belongs to. */
  constructor(path: string, server: string) {
    this.#cursor = new FileCursorStore(path, server)
    this.#path = `${path}.parked`
  }

  /** @throws CursorStoreError when the file is damaged or belongs to another server. */
  async load(): Promise<number | undefined> {
    return await this.#cursor.load()
  }

  async save(cursor: number): Promise<void> {
    await this.#cursor.save(cursor)
  }

  /** @throws CursorStoreError when the file is damaged. */
  async parked(): Promise<ParkedEvent[]> {
    const found = await readParked(this.#path).catch((error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    })
    if (found === undefined) return []
    const parked = inSeqOrder(found.values())
    const temporary = `${this.#path}.tmp`
    await writeSynced(temporary, 'w', linesOf(parked))
    await rename(temporary, this.#path)
    return parked
  }

  async park(parked: ParkedEvent): Promise<void> {
    await this.#append(lineOf({ parked }))
  }

  async unpark(seq: number): Promise<void> {
    await this.#append(lineOf({ unparked: seq }))
  }

  async #append(line: string): Promise<void> {
    const written = this.#written.then(async () => await writeSynced(this.#path, 'a', [line]))
    // A failure is thrown to whoever wrote, and does not hold up others.
    this.#written = written.catch(() => undefined)
    await written
  }
}

type Line = { parked: ParkedEvent } | { unparked: number }

function lineOf(line: Line): string {
  return `${JSON.stringify(line)}\n`
}

function* linesOf(parked: readonly ParkedEvent[]): Generator<string, void> {
  for (const each of parked) yield lineOf({ parked: each })
}

async function writeSynced(path: string, flags: 'a' | 'w', lines: Iterable<string>): Promise<void> {
  const file = await open(path, flags)
  try {
    const { size } = await file.stat()
    try {
      await file.writeFile(lines)
      await file.sync()
    } catch (error) {
      // A part of it would spoil the line that comes next.
      await file.truncate(size)
      throw error
    }
  } finally {
    await file.close()
  }
}

async function readParked(path: string): Promise<Map<number, ParkedEvent>> {
  const parked = new Map<number, ParkedEvent>()
  let at = 0
  for await (const content of wholeLines(path)) {
    at++
    const line = readLine(content)
    if (line === undefined) throw new CursorStoreError(`line ${at} of ${path} is damaged; remove it`)
    if ('unparked' in line) parked.delete(line.unparked)
    else parked.set(line.parked.event.seq, line.parked)
  }
  return parked
}

/** One after the other: a thousand events of 2 MB are longer than a string may be. */
async function* wholeLines(path: string): AsyncGenerator<string, void> {
  let rest = ''
  const chunks: AsyncIterable<string> = createReadStream(path, { encoding: 'utf8', highWaterMark: readBytes })
  for await (const chunk of chunks) {
    const lines = chunk.split('\n')
    const last = lines.pop() ?? ''
    if (lines.length === 0) {
      rest += last
      continue
    }
    yield rest + lines.shift()
    yield* lines
    rest = last
  }
  // What follows the last line break was never whole, and nobody was told that it is durable.
}

function readLine(text: string): Line | undefined {
  try {
    const line: unknown = JSON.parse(text)
    if (!isObject(line)) return undefined
    if (typeof line['unparked'] === 'number') return { unparked: line['unparked'] }
    return isParkedEvent(line['parked']) ? { parked: line['parked'] } : undefined
  } catch {
    return undefined
  }
}
