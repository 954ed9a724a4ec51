/** What `tributary relay log …` and `tributary relay backup` do with the files of a relay. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { LogLockedError, repairLog, verifyLog, type LogReport } from '@tributary/event-log'
import { exitCodeOf, FileUseError, UsageError } from '../exit-codes.ts'
import { printJson } from '../print-json.ts'
import { systemMessage } from '../system-message.ts'
import { backUpRelay } from './back-up.ts'
import { printRecords, textOfReport } from './log-text.ts'

export interface DirectoryOption {
  dataDirectory: string
  json: boolean
}

export interface InspectOptions extends DirectoryOption {
  records: boolean
  afterSeq?: number
  limit?: number
}

export interface RepairOptions extends DirectoryOption {
  skip: boolean
  cut: boolean
  floorSeq?: number
}

/** Copies the data of a relay to a new directory. @returns the exit code. */
export async function backUp({ dataDirectory, to, json }: DirectoryOption & { to: string }): Promise<number> {
  return await attempt('backup', async () => {
    const { lastSeq, databases } = await backUpRelay(dataDirectory, to)
    if (json) printJson({ to, lastSeq, databases })
    else process.stdout.write(`${to}: log through seq ${lastSeq}, ${databases.join(', ')}\n`)
  })
}

function printReport(report: LogReport, json: boolean): void {
  if (json) printJson(report)
  else process.stdout.write(textOfReport(report))
}

/** Lists the files of the log, or prints its records. @returns the exit code. */
export async function inspect({
  dataDirectory,
  json,
  records,
  afterSeq,
  limit,
}: InspectOptions): Promise<number> {
  return attempt('log inspect', async () => {
    if (!records && (afterSeq ?? limit) !== undefined)
      throw new UsageError('--after-seq and --limit choose records: give --records too')
    const directory = logOf(dataDirectory)
    if (records) await printRecords(directory, { afterSeq: afterSeq ?? 0, limit: limit ?? Infinity })
    else printReport(await verifyLog(directory), json)
  })
}

/** Reads every byte of the log. @returns the exit code: 1 when something is damaged. */
export async function verify({ dataDirectory, json }: DirectoryOption): Promise<number> {
  let report: LogReport | undefined
  const code = await attempt('log verify', async () => {
    report = await verifyLog(logOf(dataDirectory))
    printReport(report, json)
  })
  return report && report.damage.length > 0 ? 1 : code
}

/** Makes a damaged log one that opens again. @returns the exit code. */
export async function repair({ dataDirectory, json, skip, cut, floorSeq }: RepairOptions): Promise<number> {
  return attempt('log repair', async () => {
    if (skip && cut) throw new UsageError('give one of --skip and --cut')
    if (!skip && !cut && floorSeq !== undefined)
      throw new UsageError('--floor-seq changes the log: give --skip or --cut too')
    const directory = logOf(dataDirectory)
    if (!skip && !cut) {
      const report = await verifyLog(directory)
      printReport(report, json)
      if (report.damage.length > 0) throw new Error('nothing was changed: say --skip or --cut')
      return
    }
    const report = await repairLog(directory, { how: skip ? 'skip' : 'cut', floorSeq: floorSeq ?? 1 })
    const { replaced, recordsKept, recordsLost, bytesUnreadable, nextSeq } = report
    if (json) return printJson(report)
    const uncounted =
      bytesUnreadable > 0 ? `, not counting those in ${bytesUnreadable} bytes that cannot be read` : ''
    process.stdout.write(
      `${replaced.length} files replaced, ${recordsKept} records kept, ${recordsLost} lost${uncounted}; the next seq is ${nextSeq}\n`,
    )
    if (cut && replaced.length > 0)
      process.stdout.write('start the relay once with --rebuild-state: its state is ahead of the log now\n')
  })
}

function logOf(dataDirectory: string): string {
  const directory = join(dataDirectory, 'log')
  if (!existsSync(directory))
    throw new FileUseError(`${directory} does not exist: name the data directory of a relay`)
  return directory
}

/** Runs a command; what goes wrong is said on stderr. Returns the exit code. */
async function attempt(name: string, run: () => Promise<void>): Promise<number> {
  try {
    await run()
    return 0
  } catch (error) {
    const advice = error instanceof LogLockedError ? ': stop the relay first' : ''
    process.stderr.write(
      `tributary relay ${name}: ${systemMessage(error) ?? (error instanceof Error ? error.message : String(error))}${advice}\n`,
    )
    return exitCodeOf(error)
  }
}
