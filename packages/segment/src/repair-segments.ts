/**
 * Looks at the segments of a directory, and mends what is damaged. Nobody may write to the directory meanwhile.
 *
 * Always holds: whatever decodes is kept, byte for byte; a file that is replaced stays beside the new one under its name
 * with `.damaged` after it, or `.damaged2` and so on; a stop at any point leaves the old file or the new one.
 */
import { link, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { auditSegment } from './audit-segment.ts'
import { type BlockEntry, describeBlock, framePrefixBytes } from './block-index.ts'
import { decodeBlock } from './block-view.ts'
import { encodeBlockBody } from './encode-block.ts'
import { isDamage, SegmentError } from './errors.ts'
import { headerBytes, segmentState } from './header.ts'
import { hashDid } from './did-filter.ts'
import { packFrame } from './node-zstd.ts'
import { recoverSummary } from './recover.ts'
import { readWhole } from './read-whole.ts'
import { scanBlocks } from './scan-blocks.ts'
import { type Piece, takePlace, writeBeside } from './rewrite-segment.ts'
import { SealedSegment } from './sealed-segment.ts'
import { parseSegmentName, segmentName } from './segment-name.ts'

/** What a segment holds, and one sentence for each thing that is wrong with it. */
export interface SegmentReport {
  name: string
  /** Another one follows it, and it is gone. */
  isMissing?: true
  isSealed: boolean
  rows: number
  /** 0 without rows. */
  firstSeq: number
  lastSeq: number
  damage: string[]
}

/** Rows that are gone, both ends excluded. */
export interface LostRows {
  afterSeq: number
  /** Infinity when it is not known where the loss ends. */
  beforeSeq: number
  /** False when no row of this account can be among them. */
  mayHold: (did: string) => boolean
}

/** Segments in a row that may be missing. A name further on is of another archive. */
const missingMax = 10_000

export interface SegmentRepair {
  rowsKept: number
  lost: LostRows[]
}

/**
 * Reads every row of every segment, oldest segment first.
 * @param lastSeqMin the newest row that is known to have been in a durable block.
 */
export async function* verifySegments(directory: string, lastSeqMin = 0): AsyncGenerator<SegmentReport> {
  const names = await readdir(directory)
  const indices = names.flatMap((name) => parseSegmentName(name) ?? []).toSorted((a, b) => a - b)
  let lastSeq = 0
  // All of them are gone, perhaps because their disk is not mounted.
  if (indices.length === 0 && lastSeqMin > 0) yield missingSegment(segmentName(0))
  for (const [i, index] of indices.entries()) {
    const next = (indices[i - 1] ?? -1) + 1
    if (index - next > missingMax)
      throw new SegmentError('bad-name', `${segmentName(index)} is no segment of ${directory}`)
    for (let missing = next; missing < index; missing++) yield missingSegment(segmentName(missing))
    const isLast = i === indices.length - 1
    const known = isLast && lastSeq < lastSeqMin ? lastSeqMin : 0
    const report = await verifySegment(join(directory, segmentName(index)), known)
    const { damage } = report
    if (!report.isSealed && !isLast) damage.push('it is not sealed, though another one follows')
    if (report.firstSeq > 0 && report.firstSeq <= lastSeq) damage.push(`it does not follow seq ${lastSeq}`)
    lastSeq = Math.max(lastSeq, report.lastSeq)
    if (isLast && lastSeq < lastSeqMin && damage.length === 0)
      damage.push(`the blocks end at seq ${lastSeq}, and rows up to seq ${lastSeqMin} were in blocks before`)
    yield report
  }
}

function missingSegment(name: string): SegmentReport {
  const rows = { rows: 0, firstSeq: 0, lastSeq: 0 }
  return { name, isMissing: true, isSealed: true, ...rows, damage: ['it is not there'] }
}

async function verifySegment(path: string, lastSeqMin: number): Promise<SegmentReport> {
  const { bytes: file, unreadable } = await readWhole(path)
  const cannot = unreadable > 0 ? [`${unreadable} bytes cannot be read`] : []
  const report = {
    name: path.slice(-segmentName(0).length),
    isSealed: true,
    rows: 0,
    firstSeq: 0,
    lastSeq: 0,
  }
  for (const { block } of scanBlocks(file)) {
    report.rows += block.count
    report.firstSeq ||= block.seqAt(0)
    report.lastSeq = block.seqAt(block.count - 1)
  }
  try {
    report.isSealed = segmentState(file) === 'sealed'
    if (!report.isSealed)
      return { ...report, damage: [...cannot, ...(await activeDamage(file, report.lastSeq, lastSeqMin))] }
    await using segment = await SealedSegment.open(path)
    // Rows that were there have been, also when a compaction took them out.
    const lastSeq = Math.max(report.lastSeq, segment.header.maxSeq)
    return { ...report, lastSeq, damage: [...cannot, ...(await auditSegment(segment))] }
  } catch (error) {
    if (!(error instanceof SegmentError) && !isDamage(error)) throw error
    return { ...report, damage: [...cannot, error.message] }
  }
}

/** What a start would not get over, or would cut off though it is whole. */
async function activeDamage(file: Buffer, lastSeq: number, lastSeqMin: number): Promise<string[]> {
  const lease = {
    read: async (at: number, bytes: number) => file.subarray(at, at + bytes),
    [Symbol.dispose]() {},
  }
  const summary = await recoverSummary(lease, file.length, lastSeqMin)
  const readTo = summary.entries.at(-1)?.maxSeq ?? 0
  return readTo < lastSeq
    ? [`a block after seq ${readTo} cannot be read, and whole ones up to seq ${lastSeq} follow it`]
    : []
}

/**
 * Replaces a damaged segment by one with everything of it that can be read. A block that is lost from a segment whose
 * indexes are whole becomes an empty one, so that the others keep their places.
 * @param known whether it is the newest segment, which goes on being written to if it was not sealed; the newest row before
 *   it; from which seq on rows come back from the log, because a segment that is not sealed is cut at its damage if that
 *   loses nothing; and the newest row that was in a durable block.
 * @param beforeReplaced told what is lost while the file still tells so, too: nothing does after a stop later on.
 */
export async function repairSegment(
  directory: string,
  { name, isSealed }: SegmentReport,
  known: { isLast: boolean; afterSeq: number; logSeq: number; lastSeqMin: number },
  beforeReplaced: (lost: readonly LostRows[]) => void = () => {},
): Promise<SegmentRepair> {
  const path = join(directory, name)
  const repair: SegmentRepair = { rowsKept: 0, lost: [] }
  await using segment = isSealed ? await SealedSegment.open(path).catch(orDamaged) : undefined
  // A start takes rows from the log after the newest block only.
  const isSealedAnew = isSealed || !known.isLast
  const pieces = segment
    ? indexedPieces(segment, repair.lost)
    : scannedPieces(
        (await readWhole(path)).bytes,
        repair.lost,
        isSealedAnew ? { ...known, ...unknown } : known,
      )
  const { mtimeMs } = await stat(path)
  await writeBeside(path, countRows(pieces, repair), { isSealed: isSealedAnew, replacedAtMs: mtimeMs })
  // Newer segments may be gone, of which no file tells.
  if (segment && known.isLast) noteLostEnd(repair.lost, segment.header.maxSeq, known)
  beforeReplaced(repair.lost)
  await keepBeside(path)
  await takePlace(path)
  return repair
}

async function* indexedPieces(segment: SealedSegment, lost: LostRows[]): AsyncGenerator<Piece> {
  const filters = await segment.readBlockDidFilters().catch(orDamaged)
  for (const [i, entry] of segment.blocks.entries()) {
    const block = await segment.readBlock(i).catch(orDamaged)
    if (block) {
      yield { frame: await segment.readFrame(i), block, entry }
      continue
    }
    const mayHold = (did: string): boolean => {
      try {
        return filters?.at(i).has(hashDid(did)) ?? true
      } catch (error) {
        if (error instanceof SegmentError) return true
        throw error
      }
    }
    lost.push({ afterSeq: entry.minSeq - 1, beforeSeq: entry.maxSeq + 1, mayHold })
    yield await emptyPiece(entry)
  }
}

/** A block without rows that keeps the envelope of one that is lost. */
async function emptyPiece(
  envelope: Pick<BlockEntry, 'minSeq' | 'maxSeq' | 'minWitnessedAt' | 'maxWitnessedAt'>,
): Promise<Piece> {
  const empty = encodeBlockBody([])
  const entry = { ...envelope, eventCount: 0, uncompressedSize: empty.length }
  return { frame: await packFrame(empty), block: decodeBlock(empty), entry }
}

/** Bounds of a segment that is sealed, or is to be: its rows do not come back from the log, and where they ended is not known. */
const unknown = { logSeq: Infinity, lastSeqMin: Infinity }

async function* scannedPieces(
  file: Buffer,
  lost: LostRows[],
  { afterSeq, logSeq, lastSeqMin }: { afterSeq: number; logSeq: number; lastSeqMin: number },
): AsyncGenerator<Piece> {
  const mayHold = (): boolean => true
  let end = headerBytes
  let lastSeq = afterSeq
  for (const piece of scanBlocks(file)) {
    const { block, start, frame } = piece
    if (start - framePrefixBytes !== end) {
      if (logSeq <= lastSeq + 1) return
      lost.push({ afterSeq: lastSeq, beforeSeq: block.seqAt(0), mayHold })
    }
    yield { ...piece, entry: describeBlock(block, start, frame.length) }
    lastSeq = block.seqAt(block.count - 1)
    end = start + frame.length
  }
  noteLostEnd(lost, lastSeq, { logSeq, lastSeqMin })
}

/** Notes rows after the last one that is left, if they were in blocks and the log does not have them. */
function noteLostEnd(
  lost: LostRows[],
  lastSeq: number,
  { logSeq, lastSeqMin }: { logSeq: number; lastSeqMin: number },
): void {
  if (lastSeq < lastSeqMin && logSeq > lastSeq + 1)
    lost.push({ afterSeq: lastSeq, beforeSeq: Infinity, mayHold: () => true })
}

async function* countRows(pieces: AsyncIterable<Piece>, repair: SegmentRepair): AsyncGenerator<Piece> {
  for await (const piece of pieces) {
    repair.rowsKept += piece.block.count
    yield piece
  }
}

/**
 * Puts a segment without rows in the place of one that is gone, so that a start goes on after it.
 * @param range the newest row before it, and the oldest row after it.
 */
export async function replaceMissing(
  directory: string,
  { name }: SegmentReport,
  range: Pick<LostRows, 'afterSeq' | 'beforeSeq'>,
  beforeReplaced: (lost: readonly LostRows[]) => void,
): Promise<SegmentRepair> {
  const path = join(directory, name)
  const lost = [{ ...range, mayHold: () => true }]
  await writeBeside(path, emptyPieces(range), { isSealed: true, replacedAtMs: 0 })
  beforeReplaced(lost)
  await takePlace(path)
  return { rowsKept: 0, lost }
}

async function* emptyPieces({
  afterSeq,
  beforeSeq,
}: Pick<LostRows, 'afterSeq' | 'beforeSeq'>): AsyncGenerator<Piece> {
  const [minSeq, maxSeq] = [afterSeq + 1, beforeSeq - 1]
  if (minSeq > maxSeq || maxSeq === Infinity) return
  yield await emptyPiece({ minSeq, maxSeq, minWitnessedAt: 0, maxWitnessedAt: 0 })
}

/** Gives the file a second name, which no earlier repair has taken. */
async function keepBeside(path: string): Promise<void> {
  for (let n = 1; ; n++) {
    try {
      return await link(path, `${path}.damaged${n === 1 ? '' : n}`)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    }
  }
}

function orDamaged(error: unknown): undefined {
  if (error instanceof SegmentError || isDamage(error)) return undefined
  throw error
}
