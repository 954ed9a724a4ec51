/** `tributary relay log …` and `tributary relay backup`: work on the files of a relay, without its service. */
import { InvalidArgumentError, type Command } from 'commander'
import { jsonOption } from '../print-json.ts'
import { wideOption } from '../operator/text-table.ts'
import type { DirectoryOption, InspectOptions, RepairOptions, VerifyOptions } from './log-files.ts'

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
    .option(...wideOption)
    .option('--records', 'print records instead', false)
    .option('--after-seq <seq>', 'records after this seq, with --records', readSeq)
    .option('--limit <count>', 'at most this many records, with --records', readSeq)
    .action(async (options: InspectOptions) => {
      const { inspect } = await import('./log-files.ts')
      end(await inspect(options))
    })
  addCommand(log, 'verify', 'read every byte of the log and check every checksum')
    .description(
      'Reads every byte of the log and checks every checksum. Exit code 1 when something is damaged. While the relay runs its newest records may look torn.',
    )
    .option(...wideOption)
    .action(async (options: VerifyOptions) => {
      const { verify } = await import('./log-files.ts')
      end(await verify(options))
    })
  addCommand(log, 'repair', 'make a damaged log one that opens again; the relay must not run')
    .description(
      'Makes a damaged log one that opens again. Only what is damaged is touched, and the files replaced are kept beside the new ones as .damaged. No sequence number that may have been given out is used again. Without --skip or --cut it only says what it would repair.',
    )
    .option(...wideOption)
    .option('--skip', 'leave out what is damaged and keep every record that is whole', false)
    .option('--cut', 'end the log before the first damage; start the relay with --rebuild-state then', false)
    .option(
      '--floor-seq <seq>',
      'go on with this sequence number at the least, with --skip or --cut',
      readSeq,
    )
    .action(async (options: RepairOptions) => {
      const { repair } = await import('./log-files.ts')
      end(await repair(options))
    })
  addCommand(relay, 'backup', 'copy the data of a relay, running or not, to a new directory')
    .requiredOption('--to <path>', 'the directory to be made; a relay can be started on it as it is')
    .description(
      'Copies the data of a relay, running or not, to a new directory: the databases by online backup, the log by copying its files. The copy is a data directory of its own.',
    )
    .action(async (options: DirectoryOption & { to: string }) => {
      const { backUp } = await import('./log-files.ts')
      end(await backUp(options))
    })
}

function addCommand(parent: Command, name: string, summary: string): Command {
  return parent
    .command(name)
    .summary(summary)
    .helpOption('-h, --help')
    .option('--data-directory <path>', 'the data directory of the relay', 'data/relay')
    .option(...jsonOption)
}

function readSeq(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('expected a whole number from 0.')
  return Number(text)
}
