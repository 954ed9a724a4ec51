/** `tributary index rebuild` and `tributary index account`: they work on the database of an index, beside its service. */
import type { Command } from 'commander'
import { attempt } from '../attempt.ts'
import { jsonOption } from '../print-json.ts'

const settingsHint =
  'The database is the one of the settings of the index: --database-path or --database-url, its variables, or --settings.'

/** Adds them to the command of the index. @param end called with the exit code. */
export function addIndexCommands(index: Command, end: (code: number) => void): void {
  addCommand(index, 'rebuild', 'build the index again from the stream, and switch to it')
    .description(
      `Asks the index to build its database again from the archive of the stream, while feeds go on with the present one, and shows how far it has come. The index does it also when this command is stopped. ${settingsHint}`,
    )
    .option('--no-wait', 'ask, and do not wait for the end')
    .action(async (settings: string[], options: { json: boolean; wait: boolean }) => {
      const { rebuild } = await import('./index-database.ts')
      end(await attempt('tributary index rebuild', async () => await rebuild(settings, options)))
    })
  addCommand(index, 'account', 'tell what the index holds of an account')
    .description(`Tells what the index holds of an account, and whether feeds show it. ${settingsHint}`)
    .requiredOption('--did <did>', 'the account')
    .action(async (settings: string[], options: { json: boolean; did: string }) => {
      const { account } = await import('./index-database.ts')
      end(await attempt('tributary index account', async () => await account(settings, options)))
    })
}

function addCommand(parent: Command, name: string, summary: string): Command {
  return parent
    .command(name)
    .summary(summary)
    .helpOption('-h, --help')
    .argument('[settings...]')
    .allowUnknownOption()
    .option(...jsonOption)
}
