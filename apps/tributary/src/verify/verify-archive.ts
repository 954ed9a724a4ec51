/** `tributary verify --archive`: downloads the archive of a stream and checks all that it says of itself. */
import { auditSegment, parseSegment, SegmentError } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { callService, fetchBytes, NoAnswerError } from '../call-service.ts'
import { exitCodeOf, exitCodes, systemMessage } from '../exit-codes.ts'
import { printable } from '../operator/text-table.ts'
import { printJson } from '../print-json.ts'
import { readTokenFile } from '../read-token-file.ts'

export interface VerifyArchiveOptions {
  /** Address of the stream. */
  archive: string
  apiKeyFile?: string
  json: boolean
}

/** As `listSegments` tells it. */
interface Listed {
  name: string
  sizeBytes: number
  checksum: string
  eventCount: number
  minSeq: number
  maxSeq: number
}

interface Checked {
  name: string
  rows: number
  firstSeq: number
  lastSeq: number
  bytes: number
  /** Compaction replaced the file after it was listed. The new one was checked. */
  isReplaced: boolean
  damage: string[]
}

const prefix = 'network.social.stream'
/** A segment is held in memory while it is checked. Streams seal far smaller ones. */
const segmentBytesMax = 2 ** 31
/** Pages of 1000 segments. It is a hundred times the archives that we know of. */
const pagesMax = 100

/** Returns the exit code: 1 when something is damaged. */
export async function runVerifyArchive(options: VerifyArchiveOptions): Promise<number> {
  try {
    const checked: Checked[] = []
    let lastSeq = 0
    for await (const listed of listSegments(options)) {
      const report = await checkSegment(options, listed)
      if (report.firstSeq > 0 && report.firstSeq <= lastSeq)
        report.damage.push(`it does not follow seq ${lastSeq}`)
      lastSeq = Math.max(lastSeq, report.lastSeq)
      checked.push(report)
      if (!options.json) process.stdout.write(textOf(report))
    }
    const damage = checked.flatMap((report) => report.damage)
    const rows = checked.reduce((sum, report) => sum + report.rows, 0)
    if (options.json) printJson({ segments: checked, rows, damage })
    else {
      const words = damage.length === 0 ? 'no damage' : `${damage.length} faults`
      process.stdout.write(`${checked.length} segments, ${rows} rows, up to seq ${lastSeq}: ${words}\n`)
    }
    return damage.length === 0 ? exitCodes.done : exitCodes.failed
  } catch (error) {
    const message = systemMessage(error) ?? (error instanceof Error ? error.message : String(error))
    process.stderr.write(`tributary verify: ${message}\n`)
    return exitCodeOf(error)
  }
}

function headersOf({ apiKeyFile }: VerifyArchiveOptions): Record<string, string> {
  return apiKeyFile === undefined
    ? {}
    : { authorization: `Bearer ${readTokenFile(apiKeyFile, 'archive key')}` }
}

async function* listSegments(options: VerifyArchiveOptions): AsyncGenerator<Listed> {
  let cursor: string | undefined
  for (let page = 0; page < pagesMax; page++) {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    const method = `${prefix}.listSegments?${query.toString()}`
    const { segments, cursor: next } = (await callService(options.archive, method, {
      headers: headersOf(options),
    })) as { segments: Listed[]; cursor?: string } // by its lexicon
    yield* segments
    if (next === undefined) return
    cursor = next
  }
  throw new NoAnswerError(`${options.archive} lists more than ${pagesMax * 1000} segments`)
}

async function checkSegment(options: VerifyArchiveOptions, listed: Listed): Promise<Checked> {
  const { name } = listed
  const method = `${prefix}.getSegment?${new URLSearchParams({ name }).toString()}`
  const bytes = await fetchBytes(options.archive, method, { headers: headersOf(options) }, segmentBytesMax)
  const report: Checked = {
    name,
    rows: listed.eventCount,
    firstSeq: listed.minSeq,
    lastSeq: listed.maxSeq,
    bytes: bytes.length,
    isReplaced: false,
    damage: [],
  }
  try {
    const segment = parseSegment(bytes, nodeDecompress)
    const { checksum, eventCount, minSeq, maxSeq } = segment.header
    report.isReplaced = checksum !== listed.checksum
    const isAsListed =
      bytes.length === listed.sizeBytes &&
      eventCount === listed.eventCount &&
      minSeq === listed.minSeq &&
      maxSeq === listed.maxSeq
    if (!report.isReplaced && !isAsListed)
      report.damage.push('the list of segments says something else of it')
    Object.assign(report, { rows: eventCount, firstSeq: minSeq, lastSeq: maxSeq })
    report.damage.push(...(await auditSegment(segment)))
  } catch (error) {
    if (!(error instanceof SegmentError)) throw error
    report.damage.push(error.message)
  }
  return report
}

function textOf({ name, rows, firstSeq, lastSeq, bytes, isReplaced, damage }: Checked): string {
  const note = isReplaced ? '  replaced meanwhile' : ''
  const head = `${name}  seq ${firstSeq} to ${lastSeq}  ${rows} rows  ${bytes} bytes${note}`
  const lines = [head, ...damage.map((what) => `DAMAGED ${name}: ${what}`)]
  // What a server calls its segments must not reach the terminal as commands.
  return lines.map((line) => `${printable(line)}\n`).join('')
}
