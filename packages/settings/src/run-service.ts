import { existsSync } from 'node:fs'
import type { Logger } from '@tributary/telemetry'
import { collectGarbageSooner } from './collect-garbage-sooner.ts'
import type { SettingsOf, SettingsSpec } from './define.ts'
import { adviceOnFullDisk } from './full-disk.ts'
import { settingsHelp } from './help.ts'
import { givenSettings, readSettings, type SettingsSources } from './read.ts'
import { SettingsError } from './settings-error.ts'

/** How long a service may take to stop before the process ends without it. */
const stopGraceMs = 10_000
/** sysexits.h EX_CONFIG: supervisors can tell wrong settings, which no restart heals, from a crash. */
const exitCodeSettings = 78
const defaultFile = 'tributary.json'

export interface ServiceContext {
  logger: Logger
  /** Aborted when the service is asked to stop, also while it is still starting. */
  signal: AbortSignal
}

/** What `start` returns: where the service answers, and how to stop it. */
export type RunningService = { readonly address?: string } & AsyncDisposable

/**
 * The main function of every service. Reads settings from flags, environment and `tributary.json`, answers --help,
 * starts, and tells the parent `{ ready: true, url }` when forked. SIGTERM, SIGINT, SIGHUP or the loss of the parent
 * stop it within 10 s and end the process with exit code 0. An error nobody handled is logged and ends it with 1,
 * wrong settings with 78. Where a full disk is the cause, the log says what to do.
 */
export async function runService<S extends SettingsSpec>(
  name: string,
  spec: S,
  start: (settings: SettingsOf<S>, context: ServiceContext) => Promise<RunningService>,
): Promise<void> {
  collectGarbageSooner()
  const args = process.argv.slice(2)
  // The reader of our output may leave (`--help | head`). A service goes on without a reader.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined)
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(
      `Usage: tributary ${name} [settings]\n\n${settingsHelp(spec, process.stdout.columns || undefined)}`,
    )
    return
  }
  const settings = readSettingsOrExit(name, spec, args)
  // defineSettings gives every spec a `logLevel`; the type of an unknown spec cannot show it.
  const { logLevel } = settings as unknown as { logLevel: string }
  // Commands read settings too, and need no logger.
  const { createLogger } = await import('@tributary/telemetry')
  const logger = createLogger(name, { level: logLevel })
  const stopping = new AbortController()
  endOnUnhandled(logger)
  const stopped = stopOn(stopping, logger)

  let service: RunningService
  try {
    service = await start(settings, { logger, signal: stopping.signal })
  } catch (error) {
    if (stopping.signal.aborted) {
      logger.info({ err: error }, 'stopped while starting')
      process.exit(0)
    }
    logger.fatal({ err: error }, adviceOnFullDisk(error) ?? 'could not start')
    process.exit(1)
  }
  // What starting took and nobody needs any more is given back, where Node lets programs do so (`--expose-gc`).
  globalThis.gc?.({ type: 'major', flavor: 'last-resort' })
  if (!stopping.signal.aborted) {
    logger.info({ url: service.address }, 'ready')
    if (process.connected) process.send?.({ ready: true, url: service.address })
  }
  await stopped
  await service[Symbol.asyncDispose]()
  logger.info('stopped')
  process.exit(0)
}

/**
 * The settings of a command of this process, from these arguments, the environment and `tributary.json`. Prints every
 * problem and ends the process with 78 when there are any.
 */
export function readSettingsOrExit<S extends SettingsSpec>(
  name: string,
  spec: S,
  args: readonly string[],
): SettingsOf<S> {
  const { settings, problems } = readProgramSettings(spec, { args })
  if (settings !== undefined) return settings
  process.stderr.write(
    `tributary ${name}: settings need attention\n${problems.join('\n').replace(/^/gm, '  ')}\n`,
  )
  process.exit(exitCodeSettings)
}

/**
 * The settings of a program as it will read them when it starts in this directory, or all that is wrong with them, a
 * sentence each.
 *
 * @param sources.env default: the environment of this process
 */
export function readProgramSettings<S extends SettingsSpec>(
  spec: S,
  { args = [], env = process.env }: { args?: readonly string[]; env?: SettingsSources['env'] },
): { settings: SettingsOf<S> | undefined; problems: readonly string[] } {
  try {
    return { settings: readSettings(spec, { env, args, ...fileHere() }), problems: [] }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return { settings: undefined, problems: error.message.split('\n') }
  }
}

/** `givenSettings` of a program that starts in this directory, with the environment of this process unless told. */
export function givenToProgram(
  spec: SettingsSpec,
  { args = [], env = process.env }: { args?: readonly string[]; env?: SettingsSources['env'] },
): ReadonlyMap<string, string> {
  return givenSettings(spec, { env, args, ...fileHere() })
}

function fileHere(): { file?: string } {
  return existsSync(defaultFile) ? { file: defaultFile } : {}
}

function endOnUnhandled(logger: Logger): void {
  process.on('uncaughtException', (error, origin) => {
    logger.fatal({ err: error, origin }, adviceOnFullDisk(error) ?? 'unhandled error')
    process.exit(1)
  })
}

/** Resolves when the process is asked to stop. From then on it ends within `stopGraceMs`, stopped or not. */
function stopOn(stopping: AbortController, logger: Logger): Promise<void> {
  return new Promise((resolve) => {
    const stop = (reason: string): void => {
      if (stopping.signal.aborted) return
      logger.info({ reason }, 'stopping')
      setTimeout(() => {
        logger.error({ stopGraceMs }, 'did not stop in time')
        process.exit(1)
      }, stopGraceMs).unref()
      stopping.abort()
      resolve()
    }
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, stop)
    if (process.channel) process.on('disconnect', () => stop('parent gone'))
  })
}
