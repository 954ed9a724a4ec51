import { join } from 'node:path'
import { feedExtraCollections, watchedCollections } from '@tributary/protocol'
import { childEnvironment, type Prefix, settingsFileVariable, variableName } from '@tributary/settings'
import { serviceEntry, type ServiceName } from '../service-entry.ts'
import type { DataDirectory } from './data-directory.ts'
import type { UpSettings } from './settings.ts'

/** What it takes to run one service as a child. */
export interface ServicePlan {
  readonly name: ServiceName
  readonly entry: string
  readonly env: Record<string, string>
  /** The variables among them that come from `up`. */
  readonly given: readonly string[]
  /** Where it will answer. */
  readonly url: string
}

/** The stream's archive key that `up` makes for its own index. */
const indexKeyName = 'index'

/** The collections that a new stream of `up` watches: the specification's, and what else the feed shows. */
export const upCollections: readonly string[] = [...watchedCollections, ...feedExtraCollections]

/** With `--dev`. A name without a port stands for all its ports. */
const hostsOfThisMachine = ['localhost', '127.0.0.1', '[::1]']

/** What a plan needs of the data directory. */
export type PlannedDirectory = Pick<DataDirectory, 'path' | 'secret'>

/**
 * The four services with all their settings, in the order of the data's way through them. Makes the secrets that more
 * than one of them uses. A settings file, when there is one, gives them what is not said here.
 */
export function planServices(
  settings: UpSettings,
  directory: PlannedDirectory,
  settingsFile?: string,
): ServicePlan[] {
  const { host, plcUrl, logLevel, relayPort, streamPort, indexPort, feedPort } = settings
  const archiveKey = directory.secret('archive-key').value
  const databasePath = join(directory.path, 'index', 'index.sqlite')
  // A listener on every address is reached by its loopback one.
  const local = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  const addressOf = (port: number): string => `${local.includes(':') ? `[${local}]` : local}:${port}`
  const database: Record<string, string> =
    settings.databaseUrl === undefined ? {} : { databaseUrl: settings.databaseUrl }
  const labelers = settings.labelers.join(',')
  const ownHosts = settings.dev ? hostsOfThisMachine : []
  const allowedPrivateHosts = [...settings.allowedPrivateHosts, ...ownHosts].join(',')
  const trustedProxies = settings.trustedProxies.join(',')
  const plan = (name: ServiceName, address: string, own: Record<string, string>): ServicePlan => {
    const prefix: Prefix = `TRIBUTARY_${name.toUpperCase() as Uppercase<ServiceName>}` // toUpperCase returns just that
    const values = Object.entries({ plcUrl, logLevel, allowedPrivateHosts, ...own })
    const variables = Object.fromEntries(values.map(([key, value]) => [variableName(prefix, key), value]))
    const file = settingsFile === undefined ? {} : { [settingsFileVariable]: settingsFile }
    return {
      name,
      entry: serviceEntry(name),
      given: Object.keys(variables),
      env: childEnvironment({ ...variables, ...file }, prefix),
      url: `http://${address}`,
    }
  }

  return [
    plan('relay', addressOf(relayPort), {
      host,
      port: String(relayPort),
      dataDirectory: join(directory.path, 'relay'),
      trustedProxies,
      sources: settings.sources.join(','),
      operatorToken: directory.secret('operator-token').file,
    }),
    plan('stream', addressOf(streamPort), {
      host,
      port: String(streamPort),
      dataDirectory: join(directory.path, 'stream'),
      trustedProxies,
      relayUrl: `ws://${addressOf(relayPort)}`,
      // The relay beside it has verified everything already.
      verify: 'off',
      collections: upCollections.join(','),
      apiKeys: `${indexKeyName}:${archiveKey}`,
      operatorToken: directory.secret('operator-token').file,
    }),
    // Its health and metrics are for this machine alone.
    plan('index', `127.0.0.1:${indexPort}`, {
      port: String(indexPort),
      databasePath,
      ...database,
      streamUrl: `http://${addressOf(streamPort)}`,
      apiKey: archiveKey,
      handleHosts: settings.handleHosts.join(','),
      labelers,
    }),
    plan('feed', addressOf(feedPort), {
      host,
      port: String(feedPort),
      databasePath,
      ...database,
      serviceDid: settings.feedServiceDid,
      trustedProxies,
      requestsPerMinute: String(settings.feedRequestsPerMinute),
      labelers,
    }),
  ]
}
