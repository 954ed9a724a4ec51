/**
 * Counts for how long a log has been open, over all its starts: the time by which retention goes. No clock that
 * somebody can set has a part in it, so a date that jumps deletes nothing early and keeps nothing longer.
 * Time in which the log is closed does not count. A kill loses what was counted since the last save, which only makes
 * the log keep its records longer by as much.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Crc } from './block.ts'
import { checkedJson, parseCheckedJson } from './checked-json.ts'
import type { Clock } from './clock.ts'
import type { Disk } from './disk.ts'
import { replaceFile } from './durable-file.ts'

const fileName = 'open-time'
const saveEveryMs = 600_000

/** As it stands in the file. */
interface SavedTime {
  openMs: number
  /** The newest seq of each log file, and the open time at which that record was written. */
  written: [seq: number, atMs: number][]
}

/** What is known of a log file: its newest seq, and the open time at which that record was written. */
export interface WrittenFile {
  readonly lastSeq: number
  writtenAtMs: number
}

export interface OpenTimeOptions {
  directory: string
  disk: Disk
  clock: Clock
  crc: Crc
}

export class OpenTime {
  readonly #directory: string
  readonly #disk: Disk
  readonly #clock: Clock
  readonly #crc: Crc
  readonly #saved: SavedTime
  readonly #startedMs: number
  #savedAtMs: number

  constructor({ directory, disk, clock, crc }: OpenTimeOptions) {
    this.#directory = directory
    this.#disk = disk
    this.#clock = clock
    this.#crc = crc
    this.#saved = readSaved(join(directory, fileName), crc) ?? { openMs: 0, written: [] }
    this.#startedMs = clock.elapsedMs()
    this.#savedAtMs = this.#saved.openMs
  }

  /** Milliseconds for which the log has been open until now. */
  get ms(): number {
    return Math.round(this.#saved.openMs + this.#clock.elapsedMs() - this.#startedMs)
  }

  /** The newest seqs of the files that were finished at the last save. They were durable, as their files were. */
  get finishedSeqs(): number[] {
    return finishedSeqs(this.#saved)
  }

  /** When a record was written that was there at the start. If nothing tells, it counts as written just now. */
  writtenAtMs(lastSeq: number): number {
    return this.#saved.written.find(([seq]) => seq === lastSeq)?.[1] ?? this.#saved.openMs
  }

  /** Durable when it resolves. One call at a time. */
  async save(files: readonly WrittenFile[]): Promise<void> {
    const openMs = this.ms
    this.#savedAtMs = openMs
    const written = files.map(({ lastSeq, writtenAtMs }): [number, number] => [lastSeq, writtenAtMs])
    const saved: SavedTime = { openMs, written }
    await replaceFile(this.#disk, this.#directory, fileName, checkedJson(saved, this.#crc))
  }

  /** The last save was begun ten minutes ago. */
  get isDue(): boolean {
    return this.ms - this.#savedAtMs >= saveEveryMs
  }
}

/** As `OpenTime.finishedSeqs`, of a log that may be open elsewhere. */
export function readFinishedSeqs(directory: string, crc: Crc): number[] {
  const saved = readSaved(join(directory, fileName), crc)
  return saved ? finishedSeqs(saved) : []
}

/** Forgets all files but those whose newest seqs these are. What the others hold counts as written just now. */
export async function keepWritten(
  disk: Disk,
  directory: string,
  crc: Crc,
  lastSeqs: ReadonlySet<number>,
): Promise<void> {
  const saved = readSaved(join(directory, fileName), crc)
  if (!saved) return
  const written = saved.written.filter(([seq]) => lastSeqs.has(seq))
  await replaceFile(disk, directory, fileName, checkedJson({ ...saved, written }, crc))
}

/** The last file was being written: a power cut may have taken its newest record. */
function finishedSeqs({ written }: SavedTime): number[] {
  return written.slice(0, -1).map(([seq]) => seq)
}

/** Undefined when it is missing or damaged: then counting begins again, and everything is kept for the whole window. */
function readSaved(path: string, crc: Crc): SavedTime | undefined {
  try {
    const read = parseCheckedJson(readFileSync(path, 'utf8'), crc)
    return read?.hasCrc ? (read.value as SavedTime) : undefined // as `save` wrote it: its checksum is right
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}
