/** What `tributary relay log …` and `tributary relay backup` do with the files of a relay. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { repairLog } from '@tributary/event-log'
import { attempt } from '../attempt.ts'
import { counted } from '../counted.ts'
import { FileUseError, UsageError } from '../command-errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { printJson } from '../print-json.ts'
import { backUpRelay } from './back-up.ts'
import { checkLog, printRecords, printReport } from './log-text.ts'

export interface DirectoryOption {
  dataDirectory: string
  json: boolean
}

export interface VerifyOptions extends DirectoryOption {
  wide: boolean
}

export interface InspectOptions extends VerifyOptions {
  records: boolean
  afterSeq?: number
  limit?: number
}

export interface RepairOptions extends VerifyOptions {
  skip: boolean
  cut: boolean
  floorSeq?: number
}

/** Copies the data of a relay to a new directory. @returns the exit code. */
export async function backUp({ dataDirectory, to, json }: DirectoryOption & { to: string }): Promise<number> {
  return await attempt('tributary relay backup', async () => {
    const { lastSeq, databases } = await backUpRelay(dataDirectory, to)
    if (json) printJson({ to, lastSeq, databases })
    else process.stdout.write(`${[`${to}: log through seq ${lastSeq}`, ...databases].join(', ')}\n`)
  })
}

/** Lists the files of the log, or prints its records. @returns the exit code. */
export async function inspect({
  dataDirectory,
  records,
  afterSeq,
  limit,
  ...shown
}: InspectOptions): Promise<number> {
  return attempt('tributary relay log inspect', async () => {
    if (!records && (afterSeq ?? limit) !== undefined)
      throw new UsageError('--after-seq and --limit choose records: give --records too')
    const directory = logOf(dataDirectory)
    if (records) await printRecords(directory, { afterSeq: afterSeq ?? 0, limit: limit ?? Infinity })
    else printReport(await checkLog(directory), shown)
  })
}

/** Reads every byte of the log. @returns the exit code: 1 when something is damaged. */
export async function verify({ dataDirectory, ...shown }: VerifyOptions): Promise<number> {
  return await attempt('tributary relay log verify', async () => {
    const report = await checkLog(logOf(dataDirectory))
    printReport(report, shown)
    return report.damage.length > 0 ? exitCodes.failed : exitCodes.done
  })
}

/** Makes a damaged log one that opens again. @returns the exit code. */
export async function repair({
  dataDirectory,
  skip,
  cut,
  floorSeq,
  ...shown
}: RepairOptions): Promise<number> {
  return attempt('tributary relay log repair', async () => {
    if (skip && cut) throw new UsageError('give one of --skip and --cut')
    if (!skip && !cut && floorSeq !== undefined)
      throw new UsageError('--floor-seq changes the log: give --skip or --cut too')
    const directory = logOf(dataDirectory)
    if (!skip && !cut) {
      const report = await checkLog(directory)
      printReport(report, shown)
      if (report.damage.length > 0) throw new Error('nothing was changed: say --skip or --cut')
      return
    }
    const report = await repairLog(directory, { how: skip ? 'skip' : 'cut', floorSeq: floorSeq ?? 1 })
    const { replaced, recordsKept, recordsLost, bytesUnreadable, nextSeq } = report
    if (shown.json) return printJson(report)
    const uncounted =
      bytesUnreadable > 0
        ? `, not counting those in ${counted(bytesUnreadable, 'byte')} that cannot be read`
        : ''
    process.stdout.write(
      `${counted(replaced.length, 'file')} replaced, ${counted(recordsKept, 'record')} kept, ${recordsLost} lost${uncounted}; the next seq is ${nextSeq}\n`,
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
