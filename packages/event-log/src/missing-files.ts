/**
 * Finds holes between log files. A file is durable before the next one is begun, and the oldest leave first, so no stop
 * and no power cut takes a file from between two others, or makes it shorter. What tells of such a file:
 * the index beside it, and the file of the open time, which names the newest seq of each.
 */
import { readdirSync } from 'node:fs'
import type { FileIndex } from './file-index.ts'

/** A file, or the end of one, that is not there. */
export interface Hole {
  /** The file that is missing, or the one that is cut short, or the one after which a file is missing. */
  file: string
  offset: number
  /** The last seq before the hole. */
  afterSeq: number
  what: string
}

/** What is known of a file. */
export interface KnownFile extends Pick<FileIndex, 'firstSeq' | 'lastSeq' | 'bytes'> {
  name: string
}

/**
 * The holes between the first and the last of some files.
 * @param files with records, oldest first.
 * @param written seqs of records that were in finished files.
 */
export function holesBetween(
  directory: string,
  files: readonly KnownFile[],
  written: readonly number[],
): Hole[] {
  const [first, last] = [files[0], files.at(-1)]
  if (!first || !last) return []
  const names = new Set(files.map(({ name }) => name))
  const missing = readdirSync(directory)
    .filter((name) => name.endsWith('.tlog.idx'))
    .map((name) => name.slice(0, -'.idx'.length))
    .filter((name) => name > first.name && name < last.name && !names.has(name))
    .toSorted()
  const holes = missing.map((file): Hole => {
    const afterSeq = files.findLast(({ name }) => name < file)?.lastSeq ?? 0
    return { file, offset: 0, afterSeq, what: 'it is missing' }
  })
  for (const seq of written) {
    const before = files.findLast(({ firstSeq }) => firstSeq <= seq)
    if (!before || before === last || seq <= before.lastSeq) continue
    if (holes.some(({ afterSeq }) => afterSeq === before.lastSeq)) continue
    const what = `records up to seq ${seq} are missing after it`
    holes.push({ file: before.name, offset: before.bytes, afterSeq: before.lastSeq, what })
  }
  return holes
}
