import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { Block, BlockBuilder, isPayloadIntact, sealBlock, type Crc } from './block.ts'
import { createCrc } from './crc.ts'
import { systemDisk } from './disk.ts'
import { syncDirectory } from './durable-file.ts'
import { readWholeLease, writeLease } from './lease.ts'
import { lockDirectory } from './lock.ts'
import { indexName } from './log-files.ts'
import { keepWritten } from './open-time.ts'
import { scanFile, type ScanOptions } from './scan-file.ts'
import { blockSearchOf } from './secret.ts'
import { verifyLog, type LogReport } from './verify-log.ts'

export interface RepairOptions {
  /** `cut` ends the log before the first damage; `skip` leaves out what is damaged and keeps every whole record. */
  how: 'cut' | 'skip'
  /** Numbers go on here at the least. */
  floorSeq?: number
}

export interface RepairReport {
  /** What was found. */
  before: LogReport
  /** Files that were replaced or taken out; each is kept under its name with `.damaged`, `.damaged2` and so on after it. */
  replaced: string[]
  recordsKept: number
  /** Records that were lost, as far as they can be counted. */
  recordsLost: number
  /** Bytes whose records cannot be counted, for they are no blocks any more. */
  bytesUnreadable: number
  /** The next seq that will be given out. */
  nextSeq: number
}

/** Where nothing tells how far numbers were reserved: more than ever are at a time. */
const leaseLostSkips = 1_000_000

/**
 * Makes a damaged log one that opens again. No seq that may have been given out is used again: the next one lies behind
 * the lease and after every record there was.
 * @throws LogLockedError while another process has the log open.
 */
export async function repairLog(directory: string, options: RepairOptions): Promise<RepairReport> {
  const lock = lockDirectory(directory)
  try {
    return await repair(directory, options)
  } finally {
    lock.close()
  }
}

async function repair(directory: string, { how, floorSeq = 1 }: RepairOptions): Promise<RepairReport> {
  const crc = await createCrc()
  const before = await verifyLog(directory)
  // Taken before anything is replaced: the log keeps its secret, and a copy stays one.
  const lease = readWholeLease(directory)
  const search = blockSearchOf(directory, lease, crc)
  const report: RepairReport = {
    before,
    replaced: [],
    recordsKept: 0,
    recordsLost: 0,
    bytesUnreadable: before.damage.reduce((sum, { bytes, records }) => sum + (records === 0 ? bytes : 0), 0),
    nextSeq: 0,
  }
  const names = new Set(before.files.map(({ name }) => name))
  const damaged = new Set(before.damage.map(({ file }) => file))
  const missing = before.damage.filter(({ file }) => file.endsWith('.tlog') && !names.has(file))
  let afterSeq = 0
  let isCut = false
  let synced: { file: string; bytes: number } | undefined
  const newest = before.files.at(-1)?.name
  for (const { name, bytes, records, firstSeq, lastSeq } of before.files) {
    isCut ||= how === 'cut' && missing.some((hole) => firstSeq > hole.afterSeq)
    const path = join(directory, name)
    let keptBytes = bytes
    if (isCut || damaged.has(name)) {
      const blocks = isCut
        ? []
        : Array.from(keptBlocks(path, how, { crc, afterSeq, search, isNewest: name === newest }))
      isCut ||= how === 'cut'
      const kept = blocks.reduce((sum, { count }) => sum + count, 0)
      report.recordsLost += records - kept
      report.recordsKept += kept
      report.replaced.push(name)
      keptBytes = replace(path, blocks, search.secret, crc)
    } else report.recordsKept += records
    if (keptBytes > 0) synced = { file: name, bytes: before.tornBytes > 0 ? 0 : keptBytes }
    afterSeq = Math.max(afterSeq, lastSeq)
  }
  for (const { file } of missing) rmSync(indexName(join(directory, file)), { force: true })
  // What is gone is known now, and must not be missed at the next start.
  const whole = before.files.filter(({ name }) => !report.replaced.includes(name))
  await keepWritten(systemDisk, directory, crc, new Set(whole.map(({ lastSeq }) => lastSeq)))
  syncDirectory(systemDisk, directory)
  const limit = before.lease?.limit ?? 0
  const isLost = limit <= afterSeq && before.files.length > 0
  report.nextSeq = Math.max(limit, floorSeq, isLost ? afterSeq + leaseLostSkips : 1)
  const { secret } = search
  await writeLease(systemDisk, directory, { limit: report.nextSeq, synced, secret, isCopy: lease?.isCopy })
  return report
}

/** What is kept of a damaged file, in order. */
function* keptBlocks(path: string, how: RepairOptions['how'], scan: ScanOptions): Generator<Block> {
  for (const { block, damage } of scanFile(path, scan)) {
    if (!damage && block) yield block
    else if (how === 'cut') return
    else if (block) yield* wholeRecords(block, scan.crc)
  }
}

/** The records of a block whose table is intact that have their payloads, as a block of their own. */
function* wholeRecords(block: Block, crc: Crc): Generator<Block> {
  const builder = new BlockBuilder()
  for (let row = 0; row < block.count; row++) {
    if (isPayloadIntact(block, row, crc))
      builder.append(block.seqAt(row), block.timeMsAt(row), block.metaAt(row), [block.payloadAt(row)])
  }
  if (builder.count > 0) yield new Block(builder.take())
}

/**
 * Puts a file of these blocks in the place of another, which is kept aside. A stop at any point leaves one of the two.
 * Returns its bytes.
 */
function replace(path: string, blocks: readonly Block[], secret: bigint, crc: Crc): number {
  const temporary = `${path}.tmp`
  const fd = openSync(temporary, 'w')
  let bytes = 0
  for (const { buffer } of blocks) {
    const copy = Buffer.from(buffer)
    sealBlock(copy, bytes, secret, crc)
    for (let at = 0; at < copy.length;) at += writeSync(fd, copy, at)
    bytes += copy.length
  }
  fsyncSync(fd)
  closeSync(fd)
  keepBeside(path)
  rmSync(indexName(path), { force: true })
  if (bytes > 0) renameSync(temporary, path)
  else {
    rmSync(temporary)
    rmSync(path)
  }
  return bytes
}

/** Gives a file a second name, which no earlier repair has taken, or copies it where a file has one name only. */
function keepBeside(path: string): void {
  for (let n = 1; ; n++) {
    const kept = `${path}.damaged${n === 1 ? '' : n}`
    if (existsSync(kept)) continue
    try {
      return linkSync(path, kept)
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      if (code !== 'EPERM' && code !== 'ENOTSUP') throw error
      return copyFileSync(path, kept, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    }
  }
}
