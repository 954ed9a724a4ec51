/**
 * `tributary verify --archive`: downloads the archive of a stream, checks all that it says of itself, and compares some of
 * its accounts with their hosts.
 */
import { isDid } from '@tributary/protocol'
import {
  auditSegment,
  parseSegment,
  refuseLargeBlocks,
  SegmentError,
  type SegmentReader,
} from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { pagesOf } from '../answer-lists.ts'
import { callService, fetchBytes } from '../call-service.ts'
import { counted } from '../counted.ts'
import { exitCodes } from '../exit-codes.ts'
import { printable } from '../operator/text-table.ts'
import { printJson } from '../print-json.ts'
import { readTokenFile } from '../read-token-file.ts'
import { stopSignal } from '../stop-signal.ts'
import { checkAccounts } from './check-accounts.ts'
import { DidSample } from './did-sample.ts'
import type { NetworkOptions } from './network.ts'
import type { RepoReport } from './repo-check.ts'
import { reportError } from './report-error.ts'

export interface VerifyArchiveOptions extends NetworkOptions {
  /** Address of the stream. */
  archive: string
  apiKeyFile?: string
  /** So many of its accounts are compared with their hosts. Default: none. */
  accounts?: number
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

const listedKinds = {
  name: 'string',
  sizeBytes: 'number',
  checksum: 'string',
  eventCount: 'number',
  minSeq: 'number',
  maxSeq: 'number',
} as const

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
const segmentBytesMax = 2 ** 30
/** As many decompressed bytes of a block. */
const blockBytesMax = 256 * 1024 * 1024

/** Returns the exit code: 1 when something is damaged, or otherwise than a host has it. */
export async function runVerifyArchive(options: VerifyArchiveOptions): Promise<number> {
  let signal: AbortSignal | undefined
  const { accounts = 0, json } = options
  const sample = new DidSample(accounts)
  try {
    const segments = await checkSegments(options, sample)
    const damage = segments.flatMap((report) => report.damage)
    const rows = segments.reduce((sum, report) => sum + report.rows, 0)
    const lastSeq = segments.reduce((last, report) => Math.max(last, report.lastSeq), 0)
    if (!json) {
      const words = damage.length === 0 ? 'no damage' : counted(damage.length, 'fault')
      process.stdout.write(
        `${counted(segments.length, 'segment')}, ${counted(rows, 'row')}, up to seq ${lastSeq}: ${words}\n`,
      )
    }
    // Until here a signal ends the process, which has nothing to finish.
    if (accounts > 0) signal = stopSignal()
    const reports = signal ? await checkAccounts(sample.dids, options, signal) : []
    if (json) printJson({ segments, rows, damage, ...(accounts > 0 && { accounts: reports }) })
    return codeOf(damage, reports)
  } catch (error) {
    return reportError(error, signal)
  }
}

/** Faults come before accounts that could not be checked. */
function codeOf(damage: readonly string[], reports: readonly RepoReport[]): number {
  if (damage.length > 0 || reports.some(({ faultCount }) => faultCount > 0)) return exitCodes.failed
  return reports.some(({ state }) => state === 'unknown') ? exitCodes.noAnswer : exitCodes.done
}

async function checkSegments(options: VerifyArchiveOptions, sample: DidSample): Promise<Checked[]> {
  const checked: Checked[] = []
  let lastSeq = 0
  for await (const listed of listSegments(options)) {
    const report = await checkSegment(options, listed, sample)
    if (report.firstSeq > 0 && report.firstSeq <= lastSeq)
      report.damage.push(`it does not follow seq ${lastSeq}`)
    lastSeq = Math.max(lastSeq, report.lastSeq)
    checked.push(report)
    if (!options.json) process.stdout.write(textOf(report))
  }
  return checked
}

function headersOf({ apiKeyFile }: VerifyArchiveOptions): Record<string, string> {
  return apiKeyFile === undefined
    ? {}
    : { authorization: `Bearer ${readTokenFile(apiKeyFile, 'archive key')}` }
}

async function* listSegments(options: VerifyArchiveOptions): AsyncGenerator<Listed> {
  const ask = async (cursor: string | undefined): Promise<unknown> => {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    const method = `${prefix}.listSegments?${query.toString()}`
    return await callService(options.archive, method, { headers: headersOf(options) })
  }
  for await (const page of pagesOf(options.archive, 'segments', ask, { kinds: listedKinds }))
    yield* page as unknown as Listed[] // they have these fields
}

async function checkSegment(
  options: VerifyArchiveOptions,
  listed: Listed,
  sample: DidSample,
): Promise<Checked> {
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
    refuseLargeBlocks(segment.blocks, blockBytesMax)
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
    report.damage = report.damage.concat(await auditSegment(segment))
    if (options.accounts !== undefined && report.damage.length === 0) await addAccounts(segment, sample)
  } catch (error) {
    if (!(error instanceof SegmentError)) throw error
    report.damage.push(error.message)
  }
  return report
}

async function addAccounts(segment: SegmentReader, sample: DidSample): Promise<void> {
  for (const i of segment.blocks.keys()) {
    const block = await segment.readBlock(i)
    for (let row = 0; row < block.count; row++) {
      const did = block.didAt(row)
      if (isDid(did)) sample.add(did)
    }
  }
}

function textOf({ name, rows, firstSeq, lastSeq, bytes, isReplaced, damage }: Checked): string {
  const note = isReplaced ? '  replaced meanwhile' : ''
  const head = `${name}  seq ${firstSeq} to ${lastSeq}  ${counted(rows, 'row')}  ${counted(bytes, 'byte')}${note}`
  const lines = [head, ...damage.map((what) => `DAMAGED ${name}: ${what}`)]
  // What a server calls its segments must not reach the terminal as commands.
  return lines.map((line) => `${printable(line)}\n`).join('')
}
