/** What `tributary inspect …` says of files of an archive or of an event log. It reads them only. */
import { recordCborToValue } from '@tributary/protocol'
import { type BlockView, refuseLargeBlocks, rowKind, type RowKind } from '@tributary/segment'
import { SealedSegment } from '@tributary/segment/node'
import { UsageError } from '../command-errors.ts'
import { counted } from '../counted.ts'
import { readCount } from '../operator/operator-command.ts'
import { textLines, writeTable } from '../operator/text-table.ts'
import { jsonText, printJson } from '../print-json.ts'
import { writeOut } from '../read/standard-output.ts'
import { checkLog, printReport } from '../relay/log-text.ts'

/** Decompressed bytes of a block that is held in memory. */
const blockBytesMax = 256 * 1024 * 1024

export interface Shown {
  json: boolean
  wide: boolean
}

/** What each command prints of the files that it is given. They throw UsageError for what cannot be in them. */
export const inspections = { segment: inspectSegment, block: inspectBlock, log: inspectLog } as const

export type Inspection = keyof typeof inspections

async function inspectSegment([file = '']: readonly string[], { json, wide }: Shown): Promise<void> {
  await using segment = await SealedSegment.open(file)
  const { header, fileBytes } = segment
  const blocks = segment.blocks.map((block, index) => ({
    block: index,
    rows: block.eventCount,
    firstSeq: block.minSeq,
    lastSeq: block.maxSeq,
    bytes: block.compressedSize,
    decompressedBytes: block.uncompressedSize,
    firstSeen: timeOf(block.minWitnessedAt),
    lastSeen: timeOf(block.maxWitnessedAt),
  }))
  const whole = {
    name: segment.name,
    checksum: header.checksum,
    bytes: fileBytes,
    rows: header.eventCount,
    accounts: header.uniqueDidCount,
    firstSeq: header.minSeq,
    lastSeq: header.maxSeq,
    firstSeen: timeOf(header.minWitnessedAt),
    lastSeen: timeOf(header.maxWitnessedAt),
  }
  // The format counts rows of collections only: names of identity, account and sync rows stand there with 0.
  const collections = segment.collections.collections.map(({ name, count }) => ({
    collection: name,
    rows: count || undefined,
  }))
  if (json) return printJson({ ...whole, collections, blocks })
  process.stdout.write(`${textLines(whole)}\n`)
  print(collections, wide)
  process.stdout.write('\n')
  print(blocks, wide)
}

async function inspectBlock(
  [file = '', index = '']: readonly string[],
  { json, wide }: Shown,
): Promise<void> {
  await using segment = await SealedSegment.open(file)
  const at = readCount(index)
  refuseLargeBlocks(segment.blocks, blockBytesMax)
  if (at >= segment.blocks.length)
    throw new UsageError(`${segment.name} has ${counted(segment.blocks.length, 'block')}, from 0 on`)
  const block = await segment.readBlock(at)
  const rows = Array.from({ length: block.count }, (_, row) => rowOf(block, row))
  if (json) {
    const records = rows.map((row, i) => ({ ...row, payload: payloadOf(block, i) }))
    await writeOut(process.stdout, `${jsonText(JSON.stringify(records, undefined, 2))}\n`)
  } else print(rows, wide)
}

async function inspectLog([directory = '']: readonly string[], { json, wide }: Shown): Promise<void> {
  const report = await checkLog(directory)
  printReport(report, { json, wide })
  if (report.damage.length > 0) throw new Error('the log is damaged')
}

const kindNames = new Map(Object.entries(rowKind).map(([name, kind]): [RowKind, string] => [kind, name]))

function rowOf(block: BlockView, row: number): Record<string, unknown> {
  return {
    seq: block.seqAt(row),
    time: timeOf(block.indexedAtAt(row) || block.witnessedAtAt(row)),
    kind: kindNames.get(block.kindAt(row)),
    did: block.didAt(row),
    collection: block.collectionAt(row),
    rkey: block.rkeyAt(row),
    rev: block.revAt(row),
    bytes: block.payloadBytesAt(row),
  }
}

/** What the row brings, or what is wrong with it. Undefined for a delete. */
function payloadOf(block: BlockView, row: number): unknown {
  if (block.payloadBytesAt(row) === 0) return undefined
  try {
    return recordCborToValue(block.payloadAt(row))
  } catch (error) {
    return { unreadable: error instanceof Error ? error.message : String(error) }
  }
}

function print(rows: readonly Record<string, unknown>[], isWide: boolean): void {
  writeTable(rows, Object.keys(rows[0] ?? {}), { isWide })
}

function timeOf(micros: number): string {
  return micros > 0 ? new Date(micros / 1000).toISOString() : ''
}
