/** `tributary stream archive …`: works on the files of a stream, without its service. */
import type { Command } from 'commander'
import { jsonOption } from '../print-json.ts'
import type { ArchiveOptions } from './archive-files.ts'

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
    .action(async (options: ArchiveOptions) => {
      const { verify } = await import('./archive-files.ts')
      end(await verify(options))
    })
  addCommand(archive, 'repair', 'make a damaged archive one that opens again; the stream must not run')
    .description(
      'Makes a damaged archive one that opens again. Everything that can be read is kept, and rows that the write-ahead log has come back from there. Files that are replaced are kept beside the new ones as .damaged. Accounts that may have lost rows are marked as incomplete.',
    )
    .action(async (options: ArchiveOptions) => {
      const { repair } = await import('./archive-files.ts')
      end(await repair(options))
    })
}

function addCommand(parent: Command, name: string, summary: string): Command {
  return parent
    .command(name)
    .summary(summary)
    .helpOption('-h, --help')
    .option('--data-directory <path>', 'the data directory of the stream', 'data/stream')
    .option(...jsonOption)
}
