/** The commands of `tributary` and their help. What they do is elsewhere, and is loaded by the command that does it. */
import {
  closestName,
  givenToProgram,
  programVersion,
  readSettingsOrExit,
  settingsHelp,
  type SettingsSpec,
} from '@tributary/settings'
import { Argument, Command, Help, Option } from 'commander'
import { commandTree } from './completion/command-tree.ts'
import { completionHelp, completionScript, type Shell, shells } from './completion/completion-script.ts'
import { demoSettings } from './demo/settings.ts'
import { type InitOptions, printSchema, runInit } from './init/init.ts'
import { exitCodes, exitCodesHelp } from './exit-codes.ts'
import { addIndexCommands } from './index/index-commands.ts'
import type { BackfillOptions } from './read/backfill.ts'
import { outputFormats } from './read/output-file.ts'
import { addClientOptions, readClientSettings } from './read/client-settings.ts'
import { writeOut } from './read/standard-output.ts'
import { readCount, readCursor, readSince } from './read/start-position.ts'
import type { TailOptions } from './read/tail.ts'
import { addFeedCommands } from './feed/feed-commands.ts'
import { addInspectCommands } from './inspect/inspect-commands.ts'
import { wideOption } from './operator/text-table.ts'
import { addLogCommands } from './relay/log-commands.ts'
import { addOperatorCommands } from './relay/operator-commands.ts'
import { jsonOption } from './print-json.ts'
import { defaultOperatorTokenFile } from './read-token-file.ts'
import { runOneService } from './run-service.ts'
import { sentence } from './sentence.ts'
import { serviceSettings } from './service-settings.ts'
import { defaultUrls, settingsFileOf, takePlacesFromSettings } from './settings-places.ts'
import { runSeal, type SealOptions } from './seal.ts'
import { serviceNames } from './service-entry.ts'
import { printStatus, type StatusOptions } from './status.ts'
import { addArchiveCommands } from './stream/archive-commands.ts'
import { addStreamOperatorCommands } from './stream/operator-commands.ts'
import { upSettings } from './up/settings.ts'
import { addVerifyCommand } from './verify/verify-command.ts'

const serviceSummaries = {
  relay: 'run the relay alone: many PDSs in, one verified firehose out',
  stream: 'run the record stream alone: a relay in, JSON events and an archive out',
  index: 'run the index alone: a stream and labelers in, the database of the feed out',
  feed: 'run the feed alone: answers getFeed and getFeedSkeleton from the index database',
}

/** Columns of help, where the width of the terminal is not known. */
const usualHelpWidth = 80

/** The whole command line. Every command ends the process with its exit code. */
export function createProgram(): Command {
  const program = new Command('tributary')
    .description('Relay, record stream and activity feed services for AT Protocol applications.')
    .version(programVersion(), '-V, --version', 'print the version')
    .enablePositionalOptions()
    .configureHelp({ optionDescription })
    // A terminal that does not know its width says 0.
    .configureOutput({ getOutHelpWidth: () => process.stdout.columns || usualHelpWidth })
    .showHelpAfterError('(tributary --help, or --help after a command, says more)')
    .hook('preAction', (_, command) => takePlacesFromSettings(command))
    .exitOverride(({ exitCode }) => end(exitCode === 0 ? exitCodes.done : exitCodes.usage))
    .addHelpText('after', ({ command }) =>
      new Help().boxWrap(
        `\nCommands for operators are under relay, stream, index and feed, such as tributary relay hosts list. Every command has its own --help. ${exitCodesHelp}`,
        widthOf(command),
      ),
    )
  addRunningCommands(program)
  addReadingCommands(program)
  addAskingCommands(program)
  // Commander's own `help` does not know the help that commands with settings print by themselves.
  program
    .helpCommand(false)
    .command('help')
    .summary('display help for a command')
    .argument('[command...]')
    .action(async (names: string[]) => {
      let command = program
      for (const name of names) {
        const next = command.commands.find((each) => each.name() === name)
        command = next ?? program.error(`error: there is no command '${names.join(' ')}'`)
      }
      await createProgram().parseAsync([...names, '--help'], { from: 'user' })
    })
  program.on('command:*', ([word]: string[]) => refuseUnknownCommand(program, word))
  refuseUnclearOptions(program)
  return program
}

/** Values that may be empty: an empty text or list takes the old one away, and settings are looked at as settings. */
const mayBeEmpty = /<(text|patterns|value)>/

/**
 * Refuses an option that is given twice, because only one value could count, and an empty value, because it comes from a
 * variable of a script that is not set, and would count as an option that is not given.
 */
function refuseUnclearOptions(command: Command): void {
  for (const option of command.options) {
    if (!option.required && !option.optional) continue
    let isGiven = false
    command.on(`option:${option.name()}`, (value: unknown) => {
      if (isGiven) command.error(`error: option '${option.flags}' is given twice`)
      if (value === '' && !mayBeEmpty.test(option.flags))
        command.error(`error: option '${option.flags}' is empty: give a value, or leave it out`)
      isGiven = true
    })
  }
  for (const each of command.commands) refuseUnclearOptions(each)
}

function addRunningCommands(program: Command): void {
  addSettingsCommand(program, 'up', 'run all services on one data directory', upSettings, async (args) => {
    const { runUp } = await import('./up/up.ts')
    return await runUp(args, settingsFileOf(args))
  })
  program
    .command('init')
    .summary('write a settings file by asking')
    .description('Asks for what most operators set, and writes it as the settings file of `tributary up`.')
    .option('--output <file>', 'the file to be made', 'tributary.json')
    .option(...jsonOption)
    .action(async (options: InitOptions) => end(await runInit(options)))
  program
    .command('schema')
    .summary('print the JSON schema of the settings file')
    .description('Prints the JSON schema of the settings file, which editors complete and check it with.')
    .option('--json', 'print JSON, which it does anyway', false)
    .action(() => end(printSchema()))
  program
    .command('completion')
    .summary('print a script that completes commands and flags')
    .description('Prints a script by which a shell completes commands and flags.')
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .option(...jsonOption)
    .addHelpText('after', completionHelp)
    .action(async (shell: Shell, { json }: { json: boolean }) => {
      const settings = { ...serviceSettings, up: upSettings, demo: demoSettings }
      const script = completionScript(shell, commandTree(program, settings))
      await writeOut(process.stdout, json ? `${JSON.stringify({ shell, script })}\n` : script)
      end(exitCodes.done)
    })
  addSettingsCommand(
    program,
    'demo',
    'run everything against a real local network of PDSs that is made for it (npm run demo)',
    demoSettings,
    async (args) => {
      const { runDemo } = await import('./demo/demo.ts')
      const given = givenToProgram(demoSettings, { args })
      return await runDemo(readSettingsOrExit('demo', demoSettings, args), given)
    },
  )
  for (const name of serviceNames) {
    const command = addSettingsCommand(
      program,
      name,
      serviceSummaries[name],
      serviceSettings[name],
      async (args) => {
        refuseUnknownCommand(command, args[0])
        return await runOneService(name, args)
      },
    )
    if (name === 'relay') {
      addLogCommands(command, end)
      addOperatorCommands(command, end)
    }
    if (name === 'index') addIndexCommands(command, end)
    if (name === 'feed') addFeedCommands(command, end)
    if (name === 'stream') {
      addArchiveCommands(command, end)
      addStreamOperatorCommands(command, end)
    }
  }
}

/** A service's command takes settings, which are flags: another word was to be a command. */
function refuseUnknownCommand(command: Command, word: string | undefined): void {
  if (word === undefined || word.startsWith('-') || command.commands.length === 0) return
  const meant = meantBy(word, command)
  const advice = meant.length === 0 ? '' : `\n(Did you mean ${meant.join(' or ')}?)`
  command.error(`error: unknown command '${word}'${advice}`)
}

/** The commands that stand one deeper under this name, such as `stream keys`, or else the one here that is spelled alike. */
function meantBy(word: string, command: Command): string[] {
  const deeper = command.commands.flatMap((group) =>
    group.commands.filter((each) => each.name() === word).map((each) => `${group.name()} ${each.name()}`),
  )
  if (deeper.length > 0) return deeper
  const meant = closestName(
    word,
    command.commands.map((each) => each.name()),
  )
  return meant === undefined ? [] : [meant]
}

/** What else a service's command can do, for the end of its help. */
function textOfCommands(command: Command, width: number): string {
  if (command.commands.length === 0) return ''
  const help = Object.assign(new Help(), { helpWidth: width })
  const lines = command.commands.map((each) => `${help.formatItem(each.name(), 14, each.summary(), help)}\n`)
  return `\nCommands:\n${lines.join('')}`
}

function addReadingCommands(program: Command): void {
  const tail = program
    .command('tail')
    .summary('print events of a stream as they happen')
    .description(
      'Prints events of a stream from now on or from a cursor: lines to read on a terminal, and otherwise one JSON object a line.',
    )
    .option(
      '--cursor <seq>',
      'start after this seq, or at this time in microseconds, instead of now',
      readCursor,
    )
    .option(
      '--since <time>',
      'start at a time ago like 2h, or at a date, as far as the stream looks back',
      readSince,
    )
    .option('--cursor-file <file>', 'keep the cursor in this file, and start from it when it exists')
    .option('--replay', 'read the archive first, all of it or from the cursor (needs an API key)', false)
    .option('--limit <count>', 'end after this many events', readCount)
    .option('--wait <seconds>', 'give up after this time without progress (default: never)', readCount)
    .option('--compress', 'ask for compressed messages: a third of the bytes, for slow networks', false)
    .option('--json', 'print JSON on a terminal too', false)
    .option('--quiet', 'say nothing on stderr but errors and what is missing', false)
  addClientOptions(tail).action(async (options: TailOptions) => {
    const { runTail } = await import('./read/tail.ts')
    end(await runTail(readClientSettings(tail), options))
  })
  tail.addHelpText(
    'after',
    '\nExamples:\n  tributary tail --collections org.impact.*\n  tributary tail --replay --cursor-file cursor.json --api-key-file data/archive-key\n  tributary tail --since 2h',
  )

  const backfill = program
    .command('backfill')
    .summary('download everything that a stream has')
    .description(
      'Prints everything that a stream has until now, one JSON object a line, oldest first: its archive, and then what is not sealed yet.',
    )
    .option('--output <file>', 'write to a file instead of stdout; running again continues it')
    .addOption(
      new Option(
        '--format <format>',
        'what the file is (default: sqlite for .sqlite, .sqlite3 and .db, parquet, a directory of files, for .parquet, else ndjson)',
      ).choices(outputFormats),
    )
    .option('--after-seq <seq>', 'only what comes after this seq', readCount)
    .option('--before-seq <seq>', 'only what is up to this seq', readCount)
    .option('--wait <seconds>', 'give up after this time without progress', readCount, 30)
    .option('--json', 'print what came of it as JSON, with --output', false)
  addClientOptions(backfill).action(async (options: BackfillOptions) => {
    const { runBackfill } = await import('./read/backfill.ts')
    end(await runBackfill(readClientSettings(backfill), options))
  })
  backfill.addHelpText(
    'after',
    '\nExamples:\n  tributary backfill --collections org.impact.* --output impact.ndjson --api-key-file data/archive-key\n  tributary backfill --output all.sqlite --api-key-file data/archive-key\n  tributary backfill --output all.parquet --api-key-file data/archive-key',
  )
}

function addAskingCommands(program: Command): void {
  addInspectCommands(program, end)
  addVerifyCommand(program, end)
  program
    .command('status')
    .summary('say whether the services of an up are ready')
    .description(
      'Asks every service of the `tributary up` that runs on a data directory whether it is ready, what it reads, and how far behind that it is. What is stale, paused or down is named below, and ends the command with 1.',
    )
    .option('--data-directory <path>', 'the data directory, unless its settings name another', 'data')
    .option('--settings <file>', 'the settings file that up was given')
    .option(...wideOption)
    .option(...jsonOption)
    .action(async ({ dataDirectory, ...options }: StatusOptions) =>
      end(await printStatus(dataDirectory, options)),
    )

  program
    .command('seal')
    .summary('seal the active segment of a stream, so that it can be downloaded')
    .description(
      'Asks a stream to seal its active segment, so that it can be downloaded as a file. The stream does so by itself at some size and age. A backfill needs no seal: it reads the newest events through the live stream.',
    )
    .option('--url <url>', 'address of the stream', defaultUrls.stream)
    .option('--operator-token-file <file>', 'file with the operator token', defaultOperatorTokenFile)
    .option(...jsonOption)
    .action(async (options: SealOptions) => end(await runSeal(options)))
}

/** A command whose options are settings: they come from flags, variables or the settings file. */
function addSettingsCommand(
  program: Command,
  name: string,
  summary: string,
  spec: SettingsSpec,
  run: (args: readonly string[]) => Promise<number>,
): Command {
  const command = program.command(name).summary(summary).helpOption(false)
  // Settings are no options of Commander, which would know nothing of them.
  command.helpInformation = () => {
    const width = widthOf(command)
    const help = settingsHelp(spec, width) + textOfCommands(command, width)
    const about = new Help().boxWrap(sentence(summary), width)
    return `Usage: tributary ${name} [settings]\n\n${about}\n\n${help}`
  }
  // Every option is left to the action.
  command.argument('[settings...]').allowUnknownOption().passThroughOptions()
  return command.action(async (args: string[]) => {
    if (!args.includes('--help') && !args.includes('-h')) end(await run(args))
    await writeOut(process.stdout, command.helpInformation())
    end(exitCodes.done)
  })
}

/** Columns that help may have. */
function widthOf(command: Command): number {
  return command.configureOutput().getOutHelpWidth?.() ?? usualHelpWidth
}

const usualHelp = new Help()

/** A switch is off unless it is given, so its help does not say so. */
function optionDescription(option: Option): string {
  return option.defaultValue === false ? option.description : usualHelp.optionDescription(option)
}

/** Ends when the output is taken: what else is still open is of no use any more. */
function end(code: number): void {
  // Tables are written without a wait, and a pipe may hold less than one.
  if (process.stdout.writableLength > 0) process.stdout.write('', () => process.exit(code))
  else process.exit(code)
}
