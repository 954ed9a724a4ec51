/** `tributary inspect …`: what is in files of an archive or of an event log. It reads them only. */
import type { Command } from 'commander'
import { attempt } from '../attempt.ts'
import { fullName, group, type End } from '../operator/operator-command.ts'
import { wideOption } from '../operator/text-table.ts'
import { jsonOption } from '../print-json.ts'
import { sentence } from '../sentence.ts'
import type { Inspection, Shown } from './inspect-files.ts'

/** @param end called with the exit code. */
export function addInspectCommands(program: Command, end: End): void {
  const inspect = group(program, 'inspect', 'look into files of an archive or of an event log')
  const add = (usage: string, summary: string, what: Inspection): void => {
    const command = inspect
      .command(usage)
      .summary(summary)
      .description(sentence(summary))
      .helpOption('-h, --help')
    command
      .option(...jsonOption)
      .option(...wideOption)
      .action(async () => {
        const { inspections } = await import('./inspect-files.ts')
        const inspect = inspections[what]
        end(await attempt(fullName(command), () => inspect(command.args, command.opts<Shown>())))
      })
  }
  add('segment <file>', 'say what a sealed segment holds, by its header and indexes', 'segment')
  add('block <file> <index>', 'list the rows of a block of a sealed segment', 'block')
  add('log <directory>', 'list the files of an event log, and check them', 'log')
}
