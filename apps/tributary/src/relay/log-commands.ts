/** `tributary relay log …` and `tributary relay backup`: work on the files of a relay, without its service. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { LogLockedError, repairLog, verifyLog, type LogReport } from '@tributary/event-log'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { backUpRelay } from './back-up.ts'
import { jsonOption, printJson } from '../print-json.ts'
import { printRecords, textOfReport } from './log-text.ts'

interface DirectoryOption {
  dataDirectory: string
  json: boolean
}

/** Adds them to the command of the relay. @param end called with the exit code. */
export function addLogCommands(relay: Command, end: (code: number) => void): void {
  const log = relay
    .command('log')
    .summary('look at, check and repair the event log of a relay')
    .description('Tools for the event log of a relay, on its files.')
    .helpOption('-h, --help')
  addCommand(log, 'inspect', 'list the files of the log, or print its records')
    .description(
      'Lists the files of the log with their sequence numbers, times and sizes. With --records it prints what is in them, one JSON object a line.',
    )
    .option('--records', 'print records instead', false)
    .option('--after-seq <seq>', 'records after this seq', readSeq, 0)
    .addOption(
      new Option('--limit <count>', 'at most this many records').argParser(readSeq).default(Infinity, 'all'),
    )
    .action(async (options: DirectoryOption & { records: boolean; afterSeq: number; limit: number }) =>
      end(await inspect(options)),
    )
  addCommand(log, 'verify', 'read every byte of the log and check every checksum')
    .description(
      'Reads every byte of the log and checks every checksum. Exit code 1 when something is damaged. While the relay runs its newest records may look torn.',
    )
    .action(async (options: DirectoryOption) => end(await verify(options)))
  addCommand(log, 'repair', 'make a damaged log one that opens again; the relay must not run')
    .description(
      'Makes a damaged log one that opens again. Only what is damaged is touched, and the files replaced are kept beside the new ones as .damaged. No sequence number that may have been given out is used again. Without --skip or --cut it only says what it would repair.',
    )
    .option('--skip', 'leave out what is damaged and keep every record that is whole', false)
    .option('--cut', 'end the log before the first damage; start the relay with --rebuild-state then', false)
    .option('--floor-seq <seq>', 'go on with this sequence number at the least', readSeq, 1)
    .action(async (options: DirectoryOption & { skip: boolean; cut: boolean; floorSeq: number }) =>
      end(await repair(options)),
    )
  addCommand(relay, 'backup', 'copy the data of a relay, running or not, to a new directory')
    .requiredOption('--to <path>', 'the directory to be made; a relay can be started on it as it is')
    .description(
      'Copies the data of a relay, running or not, to a new directory: the databases by online backup, the log by copying its files. The copy is a data directory of its own.',
    )
    .action(async (options: DirectoryOption & { to: string }) =>
      end(await attempt('backup', async () => await backup(options))),
    )
}

function addCommand(parent: Command, name: string, summary: string): Command {
  return parent
    .command(name)
    .summary(summary)
    .helpOption('-h, --help')
    .option('--data-directory <path>', 'the data directory of the relay', 'data/relay')
    .option(...jsonOption)
}

async function backup({ dataDirectory, to, json }: DirectoryOption & { to: string }): Promise<void> {
  const { lastSeq, databases } = await backUpRelay(dataDirectory, to)
  if (json) printJson({ to, lastSeq, databases })
  else process.stdout.write(`${to}: log through seq ${lastSeq}, ${databases.join(', ')}\n`)
}

function printReport(report: LogReport, json: boolean): void {
  if (json) printJson(report)
  else process.stdout.write(textOfReport(report))
}

async function inspect({
  dataDirectory,
  json,
  records,
  afterSeq,
  limit,
}: DirectoryOption & { records: boolean; afterSeq: number; limit: number }): Promise<number> {
  return attempt('log inspect', async () => {
    const directory = logOf(dataDirectory)
    if (records) await printRecords(directory, { afterSeq, limit })
    else printReport(await verifyLog(directory), json)
  })
}

async function verify({ dataDirectory, json }: DirectoryOption): Promise<number> {
  let report: LogReport | undefined
  const code = await attempt('log verify', async () => {
    report = await verifyLog(logOf(dataDirectory))
    printReport(report, json)
  })
  return report && report.damage.length > 0 ? 1 : code
}

async function repair({
  dataDirectory,
  json,
  skip,
  cut,
  floorSeq,
}: DirectoryOption & { skip: boolean; cut: boolean; floorSeq: number }): Promise<number> {
  return attempt('log repair', async () => {
    const directory = logOf(dataDirectory)
    if (skip && cut) throw new Error('give one of --skip and --cut')
    if (!skip && !cut) {
      const report = await verifyLog(directory)
      printReport(report, json)
      if (report.damage.length > 0) throw new Error('nothing was changed: say --skip or --cut')
      return
    }
    const report = await repairLog(directory, { how: skip ? 'skip' : 'cut', floorSeq })
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
    throw new Error(`${directory} does not exist: name the data directory of a relay`)
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
      `tributary relay ${name}: ${error instanceof Error ? error.message : String(error)}${advice}\n`,
    )
    return 1
  }
}

function readSeq(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('expected a whole number from 0.')
  return Number(text)
}
