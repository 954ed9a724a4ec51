/** `tributary stream archive …`: works on the files of a stream, without its service. */
import { repairArchive, verifyArchive } from '@tributary/stream/archive-tools'
import type { Command } from 'commander'
import { jsonOption, printJson } from '../print-json.ts'

interface ArchiveOptions {
  dataDirectory: string
  json: boolean
}

type Segment = Parameters<Parameters<typeof verifyArchive>[1]>[0]

/** Adds them to the command of the stream. @param end called with the exit code. */
export function addArchiveCommands(stream: Command, end: (code: number) => void): void {
  const archive = stream
    .command('archive')
    .summary('check and repair the archive of a stream')
    .description('Tools for the archive of a stream, on its files.')
    .helpOption('-h, --help')
  addCommand(archive, 'verify', 'read every byte of the archive and check what it says of itself')
    .description(
      'Reads every row of the archive and derives again what headers, indexes and filters say; then reads the write-ahead log. Exit code 1 when something is damaged. While the stream runs its newest block may look torn.',
    )
    .action(async (options: ArchiveOptions) => end(await attempt('verify', () => verify(options))))
  addCommand(archive, 'repair', 'make a damaged archive one that opens again; the stream must not run')
    .description(
      'Makes a damaged archive one that opens again. Everything that can be read is kept, and rows that the write-ahead log has come back from there. Files that are replaced are kept beside the new ones as .damaged. Accounts that may have lost rows are marked as incomplete.',
    )
    .action(async (options: ArchiveOptions) => end(await attempt('repair', () => repair(options))))
}

function addCommand(parent: Command, name: string, summary: string): Command {
  return parent
    .command(name)
    .summary(summary)
    .helpOption('-h, --help')
    .option('--data-directory <path>', 'the data directory of the stream', 'data/stream')
    .option(...jsonOption)
}

async function verify({ dataDirectory, json }: ArchiveOptions): Promise<number> {
  let damaged = 0
  const segments: Segment[] = []
  const log = await verifyArchive(dataDirectory, (segment) => {
    damaged += segment.damage.length
    if (json) segments.push(segment)
    else say(textOf(segment))
  })
  if (json) {
    printJson({ segments, log })
    return damaged + log.damage.length === 0 ? 0 : 1
  }
  for (const { file, offset, what } of log.damage) say(`DAMAGED log/${file} at byte ${offset}: ${what}`)
  damaged += log.damage.length
  say(damaged === 0 ? 'no damage' : 'stop the stream and run: tributary stream archive repair')
  return damaged === 0 ? 0 : 1
}

async function repair({ dataDirectory, json }: ArchiveOptions): Promise<number> {
  if (json) {
    printJson(await repairToJson(dataDirectory))
    return 0
  }
  let repaired = 0
  await repairArchive(dataDirectory, {
    onSegment: (segment, { rowsKept, lost }) => {
      repaired++
      say(`${textOf(segment)}\n  replaced: ${rowsKept} rows kept`)
      for (const { afterSeq, beforeSeq } of lost)
        say(
          `  LOST rows after seq ${afterSeq}${beforeSeq === Infinity ? '' : ` and before seq ${beforeSeq}`}`,
        )
    },
    onLog: ({ replaced, recordsKept, recordsLost }) => {
      repaired++
      say(`log: ${replaced.length} files replaced, ${recordsKept} records kept, ${recordsLost} lost`)
    },
    onMarked: (accounts) => {
      if (repaired === 0) say('no damage: nothing was changed')
      else say(`${accounts} accounts are marked as incomplete`)
    },
  })
  return 0
}

/** What was repaired. Rows that are lost without an end have no `beforeSeq`. */
async function repairToJson(dataDirectory: string): Promise<object> {
  const segments: object[] = []
  const done: { log?: object; markedAccounts?: number } = {}
  await repairArchive(dataDirectory, {
    onSegment: (segment, { rowsKept, lost }) => {
      const ranges = lost.map(({ afterSeq, beforeSeq }) =>
        beforeSeq === Infinity ? { afterSeq } : { afterSeq, beforeSeq },
      )
      segments.push({ ...segment, rowsKept, lost: ranges })
    },
    onLog: (log) => (done.log = log),
    onMarked: (accounts) => (done.markedAccounts = accounts),
  })
  return { segments, ...done }
}

function textOf({ name, isSealed, rows, firstSeq, lastSeq, damage }: Segment): string {
  const head = `${name}  seq ${firstSeq} to ${lastSeq}  ${rows} rows${isSealed ? '' : '  not sealed'}`
  return [head, ...damage.map((what) => `DAMAGED ${name}: ${what}`)].join('\n')
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Runs a command; what goes wrong is said on stderr. Returns the exit code. */
async function attempt(name: string, run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    const advice =
      error instanceof Error && error.name === 'DirectoryInUseError' ? ': stop the stream first' : ''
    const what = error instanceof Error ? error.message : String(error)
    process.stderr.write(`tributary stream archive ${name}: ${what}${advice}\n`)
    return 1
  }
}
