import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Crc } from './block.ts'
import { createCrc } from './crc.ts'
import { readWholeLease, type Lease } from './lease.ts'
import { cutShort, indexedFile, logFileNames } from './log-files.ts'
import { LogSlice } from './log-slice.ts'
import { holesBetween } from './missing-files.ts'
import { readFinishedSeqs } from './open-time.ts'
import { overlaps, scanFile } from './scan-file.ts'
import { blockSearchOf } from './secret.ts'

export interface LogFileReport {
  name: string
  bytes: number
  records: number
  /** 0 when the file has no record that can be read. */
  firstSeq: number
  lastSeq: number
  firstTimeMs: number
  lastTimeMs: number
}

/** A place where the log is not what was written. */
export interface LogDamage {
  file: string
  offset: number
  bytes: number
  /** Records around it: those between are lost, as far as any had been written. */
  afterSeq: number
  /** Records that the place still tells of, whole or not. 0 where the bytes are no block: how many it had is not known. */
  records: number
  what: string
}

export interface LogReport {
  files: LogFileReport[]
  /** Undefined when it is missing or cannot be read, which is damage if there are records. */
  lease: Omit<Lease, 'secret'> | undefined
  damage: LogDamage[]
  /** Bytes after the last synced mark that are no whole record: a start cuts them, nothing is lost. */
  tornBytes: number
}

/**
 * Reads every byte of a log and every checksum. Changes nothing; a log that is being written may look torn. Files that its
 * owner deletes meanwhile are left out.
 */
export async function verifyLog(directory: string): Promise<LogReport> {
  const crc = await createCrc()
  const whole = readWholeLease(directory)
  const search = blockSearchOf(directory, whole, crc)
  const lease = whole && { limit: whole.limit, synced: whole.synced }
  const report: LogReport = { files: [], lease, damage: [], tornBytes: 0 }
  const names = logFileNames(directory)
  let lastSeq = 0
  for (const name of names) {
    const file: LogFileReport = {
      name,
      bytes: 0,
      records: 0,
      firstSeq: 0,
      lastSeq: 0,
      firstTimeMs: 0,
      lastTimeMs: 0,
    }
    const afterSeq = lastSeq
    const damage: LogDamage[] = []
    let mark = lease?.synced?.file === name ? lease.synced.bytes : 0
    const isNewest = name === names.at(-1)
    const scan = { crc, afterSeq: lastSeq, search, isNewest }
    const path = join(directory, name)
    try {
      for (const { offset, bytes, block, syncedOffset, damage: what } of scanFile(path, scan)) {
        file.bytes += bytes
        if (what)
          damage.push({ file: name, offset, bytes, afterSeq: lastSeq, records: block?.count ?? 0, what })
        if (!block) continue
        file.firstSeq ||= block.firstSeq
        file.firstTimeMs ||= block.timeMsAt(0)
        file.records += block.count
        lastSeq = file.lastSeq = block.lastSeq
        file.lastTimeMs = block.timeMsAt(block.count - 1)
        mark = Math.max(mark, syncedOffset)
      }
    } catch (error) {
      if (existsSync(path)) throw error
    }
    if (!existsSync(path)) {
      // Its owner has deleted it meanwhile, after those before it. It loses its name first, and then its bytes.
      Object.assign(report, { files: [], damage: [] })
      lastSeq = afterSeq
      continue
    }
    if (!isNewest && damage.length === 0) damage.push(...lengthDamage(path, file, afterSeq, crc))
    // Behind the mark of the newest file the first block that is not whole ends the log. No stop explains an overlap.
    const [torn] = isNewest ? damage.filter(({ offset, what }) => offset >= mark && what !== overlaps) : []
    report.damage.push(...damage.filter(({ offset }) => !torn || offset < torn.offset))
    if (torn) report.tornBytes = file.bytes - torn.offset
    report.files.push(file)
  }
  report.damage.push(...holesIn(directory, report, crc))
  report.damage.push(...damageOfLease(directory, report, lastSeq))
  return report
}

/** A finished file that has nothing, or less than its index tells of. */
function lengthDamage(path: string, file: LogFileReport, afterSeq: number, crc: Crc): LogDamage[] {
  const { name, bytes } = file
  const place = { file: name, offset: bytes, bytes: 0, records: 0 }
  if (bytes === 0) return [{ ...place, afterSeq, what: 'it is empty' }]
  const indexed = indexedFile(path, crc)
  const isShort = indexed?.hasCrc === true && indexed.index.bytes > bytes
  return isShort ? [{ ...place, afterSeq: file.lastSeq, what: cutShort }] : []
}

/** Files that are missing. Where a file is damaged before the hole, that tells enough. */
function holesIn(directory: string, { files, damage }: LogReport, crc: Crc): LogDamage[] {
  const known = files.filter(({ records }) => records > 0)
  return holesBetween(directory, known, readFinishedSeqs(directory, crc))
    .filter(({ file, afterSeq }) => !damage.some((each) => each.file === file || each.afterSeq === afterSeq))
    .map((hole) => ({ ...hole, bytes: 0, records: 0 }))
}

function damageOfLease(directory: string, { lease, files }: LogReport, lastSeq: number): LogDamage[] {
  const place = { file: 'lease', offset: 0, bytes: 0, afterSeq: lastSeq, records: 0 }
  if (!lease) {
    // The first file is made before the first lease is written.
    const isEmpty = files.every(({ bytes }) => bytes === 0) && !existsSync(join(directory, 'lease'))
    return isEmpty ? [] : [{ ...place, what: 'it is missing or holds no sequence number' }]
  }
  const damage: LogDamage[] = []
  if (lastSeq >= lease.limit) damage.push({ ...place, what: `seq ${lastSeq} stands above it` })
  const { synced } = lease
  const last = files.at(-1)
  if (synced && synced.bytes > 0 && (!last || last.name < synced.file))
    damage.push({ ...place, file: synced.file, what: 'the file is missing' })
  else if (synced && last?.name === synced.file && last.bytes < synced.bytes)
    damage.push({ ...place, file: last.name, offset: last.bytes, what: 'the file is cut short' })
  return damage
}

/**
 * The whole blocks of a log behind a seq, past any damage. Changes nothing.
 * @throws Error `ENOENT` when the log's owner deletes a file before it was read.
 */
export async function* readStoredLog(directory: string, afterSeq: number): AsyncGenerator<LogSlice> {
  const crc = await createCrc()
  const search = blockSearchOf(directory, readWholeLease(directory), crc)
  let lastSeq = 0
  const names = logFileNames(directory)
  for (const name of names) {
    const scan = { crc, afterSeq: lastSeq, search, isNewest: name === names.at(-1) }
    const path = join(directory, name)
    for (const { block, damage } of scanFile(path, scan)) {
      // Its owner may have deleted it meanwhile: then the rest of it is not left out without a word.
      if (damage) statSync(path)
      if (!block) continue
      lastSeq = block.lastSeq
      if (!damage && lastSeq > afterSeq) yield new LogSlice(block, block.firstRowAfter(afterSeq))
    }
  }
}
