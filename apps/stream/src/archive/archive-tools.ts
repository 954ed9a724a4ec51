/**
 * Checks and mends the archive of a data directory, for operators. What is kept is kept byte for byte; accounts that may
 * have lost rows are marked as incomplete.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type LogReport, repairLog, type RepairReport, verifyLog } from '@tributary/event-log'
import {
  type LostRows,
  repairSegment,
  replaceMissing,
  type SegmentRepair,
  type SegmentReport,
  verifySegments,
} from '@tributary/segment/node'
import { DirectoryInUseError, openStateDatabase, type StateDatabase } from '../state-database.ts'
import { beginRepair, endRepair, isRepairOpen, noteLost } from './lost-rows.ts'

/**
 * Reads every byte of the archive. Changes nothing. While the stream runs its newest block may look torn.
 * @param onSegment called with each segment, the oldest first.
 * @returns what was found in the write-ahead log.
 */
export async function verifyArchive(
  dataDirectory: string,
  onSegment: (report: SegmentReport) => void,
): Promise<LogReport> {
  const directory = segmentsOf(dataDirectory)
  using state = openIfFree(dataDirectory)
  const blockSeq = state && seqsOf(state.database).blockSeq
  for await (const report of verifySegments(directory, blockSeq)) onSegment(report)
  return await verifyLogOf(dataDirectory)
}

export interface ArchiveRepairObserver {
  onSegment(report: SegmentReport, repair: SegmentRepair): void
  onLog(repair: RepairReport): void
  /** Accounts whose rows may be among those that are lost. */
  onMarked(accounts: number): void
}

/**
 * Mends every damaged segment, and the log, so that the stream starts again.
 * @throws DirectoryInUseError when the stream runs.
 */
export async function repairArchive(dataDirectory: string, observer: ArchiveRepairObserver): Promise<void> {
  const directory = segmentsOf(dataDirectory)
  using state = openState(dataDirectory)
  const { database } = state
  const { blockSeq, appliedSeq } = seqsOf(database)
  const log = await verifyLogOf(dataDirectory)
  const logSeq = log.files.find(({ records }) => records > 0)?.firstSeq ?? Infinity
  const reports: SegmentReport[] = []
  for await (const report of verifySegments(directory, blockSeq)) reports.push(report)
  const marked = new Set<string>()
  let hasLost = false
  // Before what tells of the loss is replaced, so that a stop between the two does not lose that.
  const mark = (lost: readonly Pick<LostRows, 'mayHold'>[]): void => {
    if (lost.length === 0) return
    hasLost = true
    for (const did of markIncomplete(database, (did) => lost.some(({ mayHold }) => mayHold(did))))
      marked.add(did)
  }
  const markRows = (lost: readonly LostRows[]): void => {
    mark(lost)
    for (const { afterSeq, beforeSeq } of lost)
      if (beforeSeq < Infinity) noteLost(database, { afterSeq, throughSeq: beforeSeq - 1 })
  }
  for (const [i, report] of reports.entries()) {
    if (report.damage.length === 0) continue
    const afterSeq = reports.slice(0, i).findLast(({ lastSeq }) => lastSeq > 0)?.lastSeq ?? 0
    if (report.isMissing) {
      const beforeSeq = reports.slice(i).find(({ firstSeq }) => firstSeq > 0)?.firstSeq ?? Infinity
      observer.onSegment(report, await replaceMissing(directory, report, { afterSeq, beforeSeq }, markRows))
      continue
    }
    const known = { isLast: report === reports.at(-1), afterSeq, logSeq, lastSeqMin: blockSeq }
    observer.onSegment(report, await repairSegment(directory, report, known, markRows))
  }
  let lastSeq = 0
  for await (const report of verifySegments(directory)) lastSeq = Math.max(lastSeq, report.lastSeq)
  if (log.damage.length > 0) {
    if (mayLackRows(log, lastSeq, appliedSeq)) mark([{ mayHold: () => true }])
    // As marks, before what tells of the loss is replaced.
    beginRepair(database)
    const floorSeq = Math.max(lastSeq, blockSeq, appliedSeq) + 1
    observer.onLog(await repairLog(join(dataDirectory, 'log'), { how: 'skip', floorSeq }))
  }
  const { files, lease } = await verifyLogOf(dataDirectory)
  const newestSeq = files.reduce((newest, file) => Math.max(newest, file.lastSeq), lastSeq)
  const limit = lease?.limit ?? 0
  hasLost ||= isRepairOpen(database)
  if (hasLost && limit > newestSeq + 1) noteLost(database, { afterSeq: newestSeq, throughSeq: limit - 1 })
  endRepair(database)
  lowerSeqs(database, { blockSeq: lastSeq, newestSeq, limit })
  observer.onMarked(marked.size)
}

/** Whether rows may have been at a damaged place of the log that no block has, and that no event will bring again. */
function mayLackRows({ damage, files }: LogReport, blockSeq: number, appliedSeq: number): boolean {
  return damage.some(({ file, afterSeq }) => {
    if (file === 'lease') return false
    const next = files.find(({ name, firstSeq }) => name > file && firstSeq > 0)
    return Math.max(afterSeq, blockSeq) < Math.min(appliedSeq, (next?.firstSeq ?? Infinity) - 1)
  })
}

/** States say no longer of rows that are gone that they are there, or the stream would not start. */
function lowerSeqs(
  database: StateDatabase,
  { blockSeq, newestSeq, limit }: { blockSeq: number; newestSeq: number; limit: number },
): void {
  database.prepare('UPDATE upstream SET block_seq = min(block_seq, ?)').run(blockSeq)
  // Where the lease is gone a start would give out their numbers again.
  database
    .prepare('UPDATE upstream SET applied_seq = min(applied_seq, ?) WHERE applied_seq < ?')
    .run(newestSeq, limit)
}

/**
 * Returns the accounts that are hit. Records of those that are hidden leave the archive, because the row that tells readers
 * of it to hide them may be lost, and a compaction learns of deleted accounts by such rows. They come back with the account.
 */
function markIncomplete(database: StateDatabase, isHit: (did: string) => boolean): string[] {
  const dids = database.prepare<[], string>('SELECT did FROM repos').pluck().all().filter(isHit)
  const mark = database.prepare('UPDATE repos SET needs_refetch = 1 WHERE did = ?')
  const takeDown = database.prepare(
    'INSERT OR REPLACE INTO pending_takedowns (did, at_ms) SELECT did, ? FROM repos WHERE did = ? AND is_hidden = 1',
  )
  database.transaction(() => {
    for (const did of dids) {
      mark.run(did)
      takeDown.run(Date.now(), did)
    }
  })()
  return dids
}

/** A log that is not there holds nothing, and a start makes a new one. */
async function verifyLogOf(dataDirectory: string): Promise<LogReport> {
  const directory = join(dataDirectory, 'log')
  if (existsSync(directory)) return verifyLog(directory)
  return { files: [], lease: undefined, damage: [], tornBytes: 0 }
}

function segmentsOf(dataDirectory: string): string {
  const directory = join(dataDirectory, 'segments')
  if (!existsSync(directory)) throw new Error(`${dataDirectory} is no data directory of a stream`)
  return directory
}

/** The newest rows that were in durable blocks, and that the saved states account for. */
function seqsOf(database: StateDatabase): { blockSeq: number; appliedSeq: number } {
  const saved = database
    .prepare<[], { blockSeq: number; appliedSeq: number }>(
      'SELECT block_seq AS blockSeq, applied_seq AS appliedSeq FROM upstream',
    )
    .get()
  return { blockSeq: Math.max(0, saved?.blockSeq ?? 0), appliedSeq: saved?.appliedSeq ?? 0 }
}

function openState(dataDirectory: string): { database: StateDatabase } & Disposable {
  const database = openStateDatabase(join(dataDirectory, 'state.sqlite'))
  return { database, [Symbol.dispose]: () => void database.close() }
}

/** Undefined while the stream runs. */
function openIfFree(dataDirectory: string): ReturnType<typeof openState> | undefined {
  try {
    return openState(dataDirectory)
  } catch (error) {
    if (error instanceof DirectoryInUseError) return undefined
    throw error
  }
}
