import { join } from 'node:path'
import { feedExtraCollections, watchedCollections } from '@tributary/protocol'
import {
  childEnvironment,
  flagName,
  givenToProgram,
  type Prefix,
  settingsFileVariable,
  variableName,
} from '@tributary/settings'
import { serviceSettings } from '../service-settings.ts'
import { serviceEntry, type ServiceName } from '../service-entry.ts'
import type { DataDirectory } from './data-directory.ts'
import { type UpSettings, upSettings } from './settings.ts'

/** What it takes to run one service as a child. */
export interface ServicePlan {
  readonly name: ServiceName
  readonly entry: string
  readonly env: Record<string, string>
  /** Takes the place of variables in `env` once the service was ready: what is set for one start does not count again. */
  readonly laterEnv: Readonly<Record<string, string>>
  /** The variables among them that come from `up`. */
  readonly given: readonly string[]
  /** What was set for this service and does not count here, a sentence each. */
  readonly notes: readonly string[]
  /** What was set for this service and must not be, a sentence each. */
  readonly problems: readonly string[]
  /** Where it will answer. */
  readonly url: string
}

/** The stream's archive key that `up` makes for its own index. */
const indexKeyName = 'index'

/** The collections that a new stream of `up` watches: the specification's, and what else the feed shows. */
export const upCollections: readonly string[] = [...watchedCollections, ...feedExtraCollections]

/** Flags that a service takes for one start. Set to this, each has no effect. */
const forOneStart: ReadonlyMap<string, string> = new Map([['rebuildState', 'false']])

/** With `--dev`. A name without a port stands for all its ports. */
const hostsOfThisMachine = ['localhost', '127.0.0.1', '[::1]']

/** What a plan needs of the data directory. */
export type PlannedDirectory = Pick<DataDirectory, 'path' | 'secret'>

export interface PlanOptions {
  /** Gives the services what is not said here. */
  settingsFile?: string | undefined
  /** Where each setting of `up` was given, as `givenToProgram` tells it. `all`: what is set for a service never counts. */
  given: ReadonlyMap<string, string> | 'all'
}

/** Settings of one service under `up`. */
interface ServiceValues {
  /** What ties the services together: `up` decides it. */
  tied: Record<string, string>
  /** What may be set for this service alone, with the settings of `up` that it otherwise comes from. */
  free: Record<string, { value: string; from: readonly (keyof UpSettings)[] }>
  /** What would take a service away from the others. */
  refused?: readonly string[]
}

/** What to do in place of a setting of one service that `up` decides. */
function adviceOn(service: ServiceName, setting: string): string {
  if (service === 'index' && setting === 'host')
    return 'under up its health and metrics are for this machine alone: tributary index, which runs the index alone, takes it'
  const name = { port: `${service}Port`, databasePath: 'dataDirectory' }[setting] ?? setting
  if (name in upSettings.fields)
    return `give ${flagName(name)} or ${variableName(upSettings.prefix, name)} in its place`
  return (
    {
      apiKeys: 'make keys with tributary stream keys create',
      operatorToken: 'the token is in the file operator-token of the data directory',
    }[setting] ?? `tributary ${service}, which runs the ${service} alone, takes it`
  )
}

/**
 * The four services with all their settings, in the order of the data's way through them. Makes the secrets that more
 * than one of them uses. What is set for one service counts, unless it ties the services together or `up` itself was told
 * otherwise: then the plan has a note.
 */
export function planServices(
  settings: UpSettings,
  directory: PlannedDirectory,
  { settingsFile, given }: PlanOptions,
): ServicePlan[] {
  const { host, relayPort, streamPort, indexPort, feedPort } = settings
  const archiveKey = directory.secret('archive-key').value
  const databasePath = join(directory.path, 'index', 'index.sqlite')
  // A listener on every address is reached by its loopback one.
  const local = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  const addressOf = (port: number): string => `${local.includes(':') ? `[${local}]` : local}:${port}`
  const { databaseUrl } = settings
  const free = (from: keyof UpSettings, value = String(settings[from])) => ({ value, from: [from] })
  const labelers = free('labelers')
  const trustedProxies = free('trustedProxies')
  const allowedPrivateHosts = {
    value: [...settings.allowedPrivateHosts, ...(settings.dev ? hostsOfThisMachine : [])].join(','),
    from: ['allowedPrivateHosts', 'dev'],
  } as const
  const usual = { plcUrl: free('plcUrl'), logLevel: free('logLevel'), allowedPrivateHosts }
  const plan = (name: ServiceName, address: string, values: ServiceValues): ServicePlan =>
    planService(name, address, { ...values, free: { ...usual, ...values.free } }, { settingsFile, given })
  return [
    plan('relay', addressOf(relayPort), {
      tied: {
        host,
        port: String(relayPort),
        dataDirectory: join(directory.path, 'relay'),
        operatorToken: directory.secret('operator-token').file,
      },
      free: { trustedProxies, sources: free('sources') },
    }),
    plan('stream', addressOf(streamPort), {
      tied: {
        host,
        port: String(streamPort),
        dataDirectory: join(directory.path, 'stream'),
        relayUrl: `ws://${addressOf(relayPort)}`,
        apiKeys: `${indexKeyName}:${archiveKey}`,
        operatorToken: directory.secret('operator-token').file,
      },
      free: {
        trustedProxies,
        // The relay beside it has verified everything already.
        verify: { value: 'off', from: [] },
        collections: { value: upCollections.join(','), from: [] },
      },
    }),
    // Its health and metrics are for this machine alone.
    plan('index', `127.0.0.1:${indexPort}`, {
      tied: {
        host: '127.0.0.1',
        port: String(indexPort),
        ...(databaseUrl === undefined ? { databasePath } : { databaseUrl }),
        streamUrl: `http://${addressOf(streamPort)}`,
        apiKey: archiveKey,
      },
      free: { handleHosts: free('handleHosts'), labelers },
      refused: [databaseUrl === undefined ? 'databaseUrl' : 'databasePath'],
    }),
    plan('feed', addressOf(feedPort), {
      tied: {
        host,
        port: String(feedPort),
        // Its used tokens are beside it, whatever the database is.
        databasePath,
        ...(databaseUrl !== undefined && { databaseUrl }),
      },
      free: {
        serviceDid: free('feedServiceDid'),
        trustedProxies,
        requestsPerMinute: free('feedRequestsPerMinute'),
        labelers,
      },
      refused: databaseUrl === undefined ? ['databaseUrl'] : [],
    }),
  ]
}

/** One service, by what `up` has for it and by what is set for it alone. */
function planService(
  name: ServiceName,
  address: string,
  { tied, free, refused = [] }: ServiceValues,
  { settingsFile, given }: PlanOptions,
): ServicePlan {
  const prefix: Prefix = `TRIBUTARY_${name.toUpperCase() as Uppercase<ServiceName>}` // toUpperCase returns just that
  const file = settingsFile === undefined ? {} : { [settingsFileVariable]: settingsFile }
  const own = givenToProgram(serviceSettings[name], { env: childEnvironment(file, prefix) })
  const notes: string[] = []
  const chosen = { ...tied }
  for (const [setting, where] of own)
    if (setting in tied) notes.push(`${where} does not count here: ${adviceOn(name, setting)}`)
  for (const [setting, { value, from }] of Object.entries(free)) {
    const where = own.get(setting)
    const whereInUp =
      given === 'all' ? 'up' : from.map((each) => given.get(each)).find((each) => each !== undefined)
    if (where !== undefined && whereInUp === undefined) continue
    chosen[setting] = value
    if (where !== undefined) notes.push(`${where} does not count here: ${whereInUp} says otherwise`)
  }
  const variables = Object.fromEntries(
    Object.entries(chosen).map(([key, value]) => [variableName(prefix, key), value]),
  )
  return {
    name,
    entry: serviceEntry(name),
    given: Object.keys(variables),
    env: childEnvironment({ ...variables, ...file }, prefix),
    laterEnv: Object.fromEntries(
      Array.from(forOneStart)
        .filter(([setting]) => own.has(setting))
        .map(([setting, value]) => [variableName(prefix, setting), value]),
    ),
    notes,
    problems: [...own].flatMap(([setting, where]) =>
      refused.includes(setting)
        ? [`${where}: index and feed share one database: ${adviceOn(name, setting)}`]
        : [],
    ),
    url: `http://${address}`,
  }
}
