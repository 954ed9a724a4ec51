/** `tributary index rebuild` and `tributary index account`: they work on the database of an index, beside its service. */
import { setTimeout as pause } from 'node:timers/promises'
import { indexSettings } from '@tributary/index/settings'
import { type AccountReport, formatDatetime, openGenerations, openIndexReader } from '@tributary/index-store'
import { isDid } from '@tributary/protocol'
import { readSettingsOrExit } from '@tributary/settings'
import type { Command } from 'commander'
import { exitCodes } from '../exit-codes.ts'
import { printJson } from '../print-json.ts'
import { rebuildText } from './rebuild-text.ts'

/** How often it is looked how far a rebuild has come. */
const lookEveryMs = 500
const plainEveryMs = 5000
/** Time to read what there is of an account: of a large one everything is counted. */
const accountMs = 60_000

const settingsHint =
  'The database is the one of the settings of the index: --database-path or --database-url, its variables, or --settings.'

/** Adds them to the command of the index. @param end called with the exit code. */
export function addIndexCommands(index: Command, end: (code: number) => void): void {
  addCommand(index, 'rebuild', 'build the index again from the stream, and switch to it')
    .description(
      `Asks the index to build its database again from the archive of the stream, while feeds go on with the present one, and shows how far it has come. The index does it also when this command is stopped. ${settingsHint}`,
    )
    .option('--no-wait', 'ask, and do not wait for the end')
    .action(async (settings: string[], { json, wait }: { json: boolean; wait: boolean }) =>
      end(await rebuild(settings, { json, wait })),
    )
  addCommand(index, 'account', 'tell what the index holds of an account')
    .description(`Tells what the index holds of an account, and whether feeds show it. ${settingsHint}`)
    .requiredOption('--did <did>', 'the account')
    .action(async (settings: string[], { json, did }: { json: boolean; did: string }) =>
      end(await account(settings, { json, did })),
    )
}

function addCommand(parent: Command, name: string, summary: string): Command {
  return parent
    .command(name)
    .summary(summary)
    .helpOption('-h, --help')
    .argument('[settings...]')
    .allowUnknownOption()
    .option('--json', 'print JSON', false)
}

function placeOf(command: string, settings: readonly string[]): string {
  const { databaseUrl, databasePath } = readSettingsOrExit(`index ${command}`, indexSettings, settings)
  return databaseUrl ?? databasePath
}

async function rebuild(
  settings: readonly string[],
  { json, wait }: { json: boolean; wait: boolean },
): Promise<number> {
  await using generations = openGenerations(placeOf('rebuild', settings))
  const before = await generations.current()
  try {
    await generations.askForRebuild()
  } catch (error) {
    process.stderr.write(
      `tributary index rebuild: ${error instanceof Error ? error.message : String(error)}\n`,
    )
    return exitCodes.failed
  }
  if (!wait) {
    if (json) printJson({ generation: before, isDone: false })
    else process.stdout.write('a rebuild is asked for\n')
    return exitCodes.done
  }
  const isTerminal = process.stderr.isTTY
  for (let shownAt = -Infinity; (await generations.current()) === before;) {
    if (isTerminal || performance.now() - shownAt >= plainEveryMs) {
      shownAt = performance.now()
      const text = rebuildText(await generations.progress(), before)
      process.stderr.write(isTerminal ? `\r\x1b[2K${text}` : `${text}\n`)
    }
    await pause(lookEveryMs)
  }
  if (isTerminal) process.stderr.write('\r\x1b[2K')
  const generation = await generations.current()
  if (json) printJson({ generation, isDone: true })
  else process.stdout.write(`the index is built again: generation ${generation}\n`)
  return exitCodes.done
}

async function account(
  settings: readonly string[],
  { json, did }: { json: boolean; did: string },
): Promise<number> {
  if (!isDid(did)) {
    process.stderr.write(`tributary index account: ${did} is no DID\n`)
    return exitCodes.usage
  }
  await using reader = openIndexReader(placeOf('account', settings))
  try {
    const report = await reader.snapshot({ timeoutMs: accountMs }, (view) => view.account(did))
    if (json) printJson(JSON.parse(JSON.stringify(report, plainNumbers)))
    else process.stdout.write(textOf(did, report))
    return exitCodes.done
  } catch (error) {
    process.stderr.write(
      `tributary index account: ${error instanceof Error ? error.message : String(error)}\n`,
    )
    return exitCodes.failed
  }
}

const plainNumbers = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' ? Number(value) : value

function textOf(did: string, report: AccountReport): string {
  const { account: state, handle, records, entries, follows, labels } = report
  const lines: [string, string][] = [
    ['account', did],
    ['handle', handle ?? 'none that is proven'],
  ]
  if (state === undefined) lines.push(['state', 'not known: it has no indexed records'])
  else {
    lines.push(['state', `${state.status}, ${state.hidden === 1n ? 'hidden' : 'shown'}`])
    lines.push(['its host says', state.hostStatus ?? 'not asked since'])
    lines.push(['host asked', state.checkedAt === 0n ? 'never' : formatDatetime(state.checkedAt)])
  }
  lines.push(['follows', String(follows)])
  for (const { collection, count } of records) lines.push(['records', `${count} ${collection}`])
  for (const { kind, count } of entries) lines.push(['entries', `${count} ${kind}`])
  for (const { val, neg, src, cts, exp } of labels) {
    const end = exp === null ? '' : `, until ${formatDatetime(exp)}`
    lines.push(['label', `${neg === 1n ? 'not ' : ''}${val} by ${src}, ${formatDatetime(cts)}${end}`])
  }
  return lines.map(([name, value]) => `${name.padEnd(14)} ${value}\n`).join('')
}
