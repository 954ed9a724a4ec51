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
  type SegmentRepair,
  type SegmentReport,
  verifySegments,
} from '@tributary/segment/node'
import { DirectoryInUseError, openStateDatabase, type StateDatabase } from '../state-database.ts'

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
  const blockSeq = state && blockSeqOf(state.database)
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
 * @throws DirectoryInUseError when the stream runs, SegmentError when a segment is not there.
 */
export async function repairArchive(dataDirectory: string, observer: ArchiveRepairObserver): Promise<void> {
  const directory = segmentsOf(dataDirectory)
  using state = openState(dataDirectory)
  const { database } = state
  const blockSeq = blockSeqOf(database)
  const log = await verifyLogOf(dataDirectory)
  const logSeq = log.files.find(({ records }) => records > 0)?.firstSeq ?? Infinity
  const reports: SegmentReport[] = []
  for await (const report of verifySegments(directory, blockSeq)) reports.push(report)
  const lost: LostRows[] = []
  for (const report of reports) {
    if (report.damage.length === 0) continue
    const known = { isLast: report === reports.at(-1), logSeq, lastSeqMin: blockSeq }
    const repair = await repairSegment(directory, report, known)
    lost.push(...repair.lost)
    observer.onSegment(report, repair)
  }
  let lastSeq = 0
  for await (const report of verifySegments(directory)) lastSeq = Math.max(lastSeq, report.lastSeq)
  if (log.damage.length > 0) {
    const floorSeq = Math.max(lastSeq, blockSeq) + 1
    observer.onLog(await repairLog(join(dataDirectory, 'log'), { how: 'skip', floorSeq }))
  }
  observer.onMarked(
    database.transaction(() => {
      database.prepare('UPDATE upstream SET block_seq = min(block_seq, ?)').run(lastSeq)
      return markIncomplete(database, (did) => lost.some(({ mayHold }) => mayHold(did)))
    })(),
  )
}

function markIncomplete(database: StateDatabase, isHit: (did: string) => boolean): number {
  const dids = database.prepare<[], string>('SELECT did FROM repos').pluck().all().filter(isHit)
  const mark = database.prepare('UPDATE repos SET needs_refetch = 1 WHERE did = ?')
  for (const did of dids) mark.run(did)
  return dids.length
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

function blockSeqOf(database: StateDatabase): number {
  const blockSeq = database.prepare<[], number>('SELECT block_seq FROM upstream').pluck().get()
  return Math.max(0, blockSeq ?? 0)
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
