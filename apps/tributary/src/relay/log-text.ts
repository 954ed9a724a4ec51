import { existsSync } from 'node:fs'
import { readStoredLog, verifyLog, type LogReport } from '@tributary/event-log'
import { decodeFrame, FrameError } from '@tributary/protocol'
import { FileUseError } from '../command-errors.ts'
import { counted } from '../counted.ts'
import { printable, writeTable } from '../operator/text-table.ts'
import { jsonText, printJson } from '../print-json.ts'
import { writeOut } from '../read/standard-output.ts'

/** Reads every byte of a log, and checks every checksum. @throws FileUseError where no log is. */
export async function checkLog(directory: string): Promise<LogReport> {
  if (!existsSync(directory)) throw new FileUseError(`${directory} does not exist`)
  const report = await verifyLog(directory)
  const isLog = report.files.length > 0 || report.lease !== undefined
  if (!isLog) throw new FileUseError(`${directory} holds no event log`)
  return report
}

/** Prints what a check of a log found. */
export function printReport(report: LogReport, { json, wide }: { json: boolean; wide: boolean }): void {
  if (json) return printJson(report)
  const { files, lease, damage, tornBytes } = report
  const rows = files.map(({ firstTimeMs, lastTimeMs, ...file }) => ({
    ...file,
    firstTime: textOfTime(firstTimeMs),
    lastTime: textOfTime(lastTimeMs),
  }))
  writeTable(rows, ['name', 'firstSeq', 'lastSeq', 'records', 'bytes', 'firstTime', 'lastTime'], {
    isWide: wide,
  })
  const records = files.reduce((sum, file) => sum + file.records, 0)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const lines = [
    [counted(files.length, 'file'), counted(records, 'record'), counted(bytes, 'byte')].join(', '),
  ]
  if (lease) lines.push(`sequence numbers are reserved up to ${lease.limit - 1}`)
  if (tornBytes > 0) lines.push(`not whole yet at the end, and cut by a start: ${counted(tornBytes, 'byte')}`)
  for (const { file, offset, bytes, afterSeq, what } of damage)
    lines.push(`DAMAGED ${file} at byte ${offset}, ${counted(bytes, 'byte')}, after seq ${afterSeq}: ${what}`)
  if (damage.length === 0) lines.push('no damage')
  process.stdout.write(lines.map((line) => `${printable(line)}\n`).join(''))
}

/** Prints records, one JSON object a line, oldest first. */
export async function printRecords(
  directory: string,
  { afterSeq, limit }: { afterSeq: number; limit: number },
): Promise<void> {
  let left = limit
  for await (const slice of readStoredLog(directory, afterSeq)) {
    const count = Math.min(slice.count, left)
    const lines = Array.from({ length: count }, (_, row) => {
      const { source, epoch, upstreamSeq } = slice.metaAt(row)
      const payload = slice.payloadAt(row)
      return JSON.stringify({
        seq: slice.seqAt(row),
        time: textOfTime(slice.timeMsAt(row)),
        ...describe(payload),
        source,
        epoch,
        upstreamSeq,
        bytes: payload.length,
      })
    })
    left -= count
    if (count > 0 && !(await writeOut(process.stdout, lines.map((line) => `${jsonText(line)}\n`).join(''))))
      return
    if (left === 0) return
  }
}

/** The kind and the account of a record, which is a message as it stands on the wire. */
function describe(payload: Buffer): { type?: string; did?: string; rev?: string; error?: string } {
  try {
    const { t, body } = decodeFrame(messageOf(payload))
    const did = String(body['repo'] ?? body['did'])
    return { type: t ?? '', did, ...(typeof body['rev'] === 'string' && { rev: body['rev'] }) }
  } catch (error) {
    if (!(error instanceof FrameError) && !(error instanceof RangeError)) throw error
    return { error: 'not a message' }
  }
}

/** The message within a WebSocket frame of a server. */
function messageOf(frame: Buffer): Buffer {
  const short = frame.readUInt8(1)
  return frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10)
}

function textOfTime(ms: number): string {
  return ms > 0 ? new Date(ms).toISOString() : '-'
}
