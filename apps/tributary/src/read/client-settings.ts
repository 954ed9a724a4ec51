import { eventKinds } from '@tributary/protocol'
import {
  choice,
  defineSilentSettings,
  givenToProgram,
  list,
  readProgramSettings,
  secretFile,
  type SettingsOf,
  type SettingsSpec,
  text,
  url,
} from '@tributary/settings'
import { type Command, Option } from 'commander'
import { exitCodes } from '../exit-codes.ts'
import { readTokenFile, TokenFileError } from '../read-token-file.ts'
import { defaultUrls, runningUrl } from '../settings-places.ts'

/** The namespace of the stream's own methods. The client library has the same default. */
export const defaultNamespace = 'network.social.stream'

/** Which stream to read, and what of it: shared by all commands that read. */
export const clientSettings = defineSilentSettings(
  'TRIBUTARY_CLIENT',
  {
    url: url({
      default: defaultUrls.stream,
      schemes: ['http', 'https', 'ws', 'wss'],
      doc: 'Address of the stream, or of any other Jetstream v2 server.',
    }),
    apiKey: text({
      isSecret: true,
      doc: 'Key for the archive. Others on this machine may see it in the list of processes.',
    }),
    apiKeyFile: secretFile({ doc: 'File with the key for the archive.' }),
    nsidPrefix: text({
      pattern: /[a-z][a-z0-9-]*(\.[a-zA-Z0-9-]+)+/,
      form: 'a namespace',
      doc: `Namespace of the methods, ${defaultNamespace} unless it is given. network.bsky.jetstream reads other Jetstream v2 servers.`,
    }),
    jetstreamVersion: choice(['1', '2'], {
      default: '2',
      doc: 'Version of Jetstream that the server speaks. A server of version 1 has live events alone.',
    }),
    kinds: list({
      pattern: new RegExp(eventKinds.join('|')),
      form: `${eventKinds.slice(0, -1).join(', ')} or ${eventKinds.at(-1)}`,
      doc: 'Only these kinds of events.',
    }),
    collections: list({
      pattern: /[a-zA-Z][a-zA-Z0-9-]*(\.[a-zA-Z0-9-]+)+(\.\*)?/,
      form: 'NSIDs, or patterns like org.impact.*',
      doc: 'Only commits of these collections. Other kinds of events pass unless --kinds says otherwise.',
    }),
    dids: list({
      pattern: /did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]/,
      form: 'DIDs',
      doc: 'Only events of these accounts.',
    }),
  },
  [['apiKey', 'apiKeyFile']],
)

export type ClientSettings = SettingsOf<typeof clientSettings>

/** Declares the settings above as options of a command. Each may come from its variable instead. */
export function addClientOptions(command: Command): Command {
  const fields: SettingsSpec['fields'] = clientSettings.fields
  for (const [name, field] of Object.entries(fields)) {
    const fallback = field.fallback === undefined ? '' : field.format(field.fallback)
    const notes = [field.form, ...(fallback === '' ? [] : [`default ${fallback}`]), `or ${variableOf(name)}`]
    const option = new Option(`--${kebab(name)} <value>`, `${field.doc} (${notes.join('; ')})`)
    if (field.isList)
      option.argParser((value: string, earlier?: string) => (earlier ? `${earlier},${value}` : value))
    command.addOption(option)
  }
  return command
}

/**
 * The settings of a command that has these options. When they are not what they should be, it prints every problem and ends
 * the process: the code says whether they were typed here or come from elsewhere.
 */
export function readClientSettings(command: Command): ClientSettings {
  const given: Record<string, unknown> = command.opts()
  const args = Object.keys(clientSettings.fields).flatMap((name) =>
    typeof given[name] === 'string' ? [`--${kebab(name)}=${given[name]}`] : [],
  )
  // A file that is typed here is one like any other file.
  if (typeof given['apiKeyFile'] === 'string') requireTokenFile(command, given['apiKeyFile'])
  const { settings, problems } = readProgramSettings(clientSettings, { args })
  if (settings !== undefined) {
    const isGiven = givenToProgram(clientSettings, { args }).has('url')
    const url = isGiven ? undefined : runningUrl(command, settings.url)
    return url === undefined ? settings : { ...settings, url }
  }
  process.stderr.write(
    `tributary ${command.name()}: settings need attention\n${problems.map((each) => `  ${each}\n`).join('')}`,
  )
  process.exit(problems.some((problem) => problem.startsWith('--')) ? exitCodes.usage : exitCodes.settings)
}

function requireTokenFile(command: Command, file: string): void {
  try {
    readTokenFile(file, 'archive key')
  } catch (error) {
    if (!(error instanceof TokenFileError)) throw error
    process.stderr.write(`tributary ${command.name()}: ${error.message}\n`)
    process.exit(exitCodes.io)
  }
}

function variableOf(name: string): string {
  return `TRIBUTARY_CLIENT_${kebab(name).replaceAll('-', '_').toUpperCase()}`
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}
