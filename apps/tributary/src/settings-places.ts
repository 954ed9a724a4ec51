/** Where commands look that were not told: the same places as the services of `up`, or a service alone, by their settings. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { givenToProgram, readProgramSettings, readSettingsOrExit } from '@tributary/settings'
import type { Command } from 'commander'
import { serviceSettings } from './service-settings.ts'
import { readRunNote } from './up/data-directory.ts'
import { upSettings } from './up/settings.ts'

/** Where services answer whose settings say nothing else. */
export const defaultUrls = {
  relay: 'http://127.0.0.1:2470',
  stream: 'http://127.0.0.1:2480',
  feed: 'http://127.0.0.1:2484',
} as const

/**
 * Gives a command that is about to run what was not typed: the data directory and the operator token's file of the settings,
 * where those name a directory, and the address of the service that runs on it. Ends the process with 78 when these
 * settings need attention.
 */
export function takePlacesFromSettings(command: Command): void {
  const isUntyped = (option: string): boolean => command.getOptionValueSource(option) === 'default'
  const take = (option: string, place: string | undefined): void => {
    if (place !== undefined) command.setOptionValueWithSource(option, place, 'config')
  }
  if (isUntyped('dataDirectory')) take('dataDirectory', dataDirectoryFor(command))
  if (isUntyped('url')) take('url', runningUrl(command, command.getOptionValue('url')))
  if (!isUntyped('operatorTokenFile')) return
  const directory = directoryOfUp(command)
  take('operatorTokenFile', directory && join(directory, 'operator-token'))
}

function dataDirectoryFor(command: Command): string | undefined {
  const service = serviceOf(command)
  const directory = directoryOfUp(command)
  if (service === undefined) return directory
  const spec = serviceSettings[service]
  if (givenToProgram(spec, {}).has('dataDirectory'))
    return readSettingsOrExit(service, spec, []).dataDirectory
  return directory && join(directory, service)
}

/** Where the service answers that has this address by default, if an `up` runs it elsewhere. */
export function runningUrl(command: Command, defaultUrl: unknown): string | undefined {
  const note = readRunNote(directoryOfUp(command) ?? 'data')
  return note?.services.find(({ name }) => new Map(Object.entries(defaultUrls)).get(name) === defaultUrl)?.url
}

/** Undefined where nothing names it: it is `data` then. */
function directoryOfUp(command: Command): string | undefined {
  const { settings } = command.opts<{ settings?: string }>()
  if (settings !== undefined && !existsSync(settings))
    command.error(`error: option '--settings <file>': there is no ${settings}`)
  const args = settings === undefined ? [] : [`--settings=${settings}`]
  if (!givenToProgram(upSettings, { args }).has('dataDirectory')) return undefined
  return readSettingsOrExit(command.name(), upSettings, args).dataDirectory
}

/** The service with files of its own under whose command this one stands. */
function serviceOf(command: Command): 'relay' | 'stream' | undefined {
  for (let each: Command | null = command; each; each = each.parent) {
    const name = each.name()
    if (name === 'relay' || name === 'stream') return name
  }
  return undefined
}

/**
 * The database of the index, the labelers that count in it, and where the index answers if an `up` runs it: by the settings of
 * the index, and what these do not say as `up` has it. Ends the process with 78 when the settings of the index need attention.
 *
 * @param name of the command, for messages
 * @param args settings of the index
 */
export function indexFromSettings(
  name: string,
  args: readonly string[],
): { place: string; labelers: readonly string[]; url?: string } {
  const settings = readSettingsOrExit(name, serviceSettings.index, args)
  const given = givenToProgram(serviceSettings.index, { args })
  const file = settingsFileOf(args)
  const { settings: up } = readProgramSettings(upSettings, {
    args: file === undefined ? [] : [`--settings=${file}`],
  })
  const note = up && readRunNote(up.dataDirectory)
  const labelers = given.has('labelers') ? settings.labelers : (note?.labelers ?? up?.labelers ?? [])
  const own = settings.databaseUrl ?? settings.databasePath
  if (up === undefined || given.has('databaseUrl') || given.has('databasePath'))
    return { place: own, labelers }
  const path = join(up.dataDirectory, 'index', 'index.sqlite')
  const place = up.databaseUrl ?? (existsSync(path) || !existsSync(own) ? path : own)
  const url = place === own ? undefined : note?.services.find(({ name }) => name === 'index')?.url
  return { place, labelers, ...(url !== undefined && { url }) }
}

/** The settings file that the arguments name: its other sections are for the services. */
export function settingsFileOf(args: readonly string[]): string | undefined {
  const at = args.findLastIndex((arg) => arg === '--settings' || arg.startsWith('--settings='))
  const arg = args[at]
  return arg === '--settings' ? args[at + 1] : arg?.slice('--settings='.length)
}
