import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { feedExtraCollections, watchedCollections } from '@tributary/protocol'
import { childEnvironment, type Prefix, variableName } from '@tributary/settings'
import { serviceEntry, type ServiceName } from '../service-entry.ts'
import type { DataDirectory } from './data-directory.ts'
import type { UpSettings } from './settings.ts'

/** What it takes to run one service as a child. */
export interface ServicePlan {
  readonly name: ServiceName
  readonly entry: string
  readonly env: Record<string, string>
  /** Where it will answer. */
  readonly url: string
}

/** The stream's archive key that `up` makes for its own index. */
export const indexKeyName = 'index'

/** The collections that a new stream of `up` watches: the specification's, and what else the feed shows. */
export const upCollections: readonly string[] = [...watchedCollections, ...feedExtraCollections]

/** The four services with all their settings, in the order of the data's way through them. */
export function planServices(settings: UpSettings, directory: DataDirectory): ServicePlan[] {
  const archiveKey = directory.secret('archive-key').value
  const operatorToken = directory.secret('operator-token').file
  const { host, dataDirectory, relayPort, streamPort, indexPort, feedPort } = settings
  // A listener on every address is reached by its loopback one.
  const local = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  const addressOf = (port: number): string => `${local.includes(':') ? `[${local}]` : local}:${port}`
  const databasePath = join(dataDirectory, 'index', 'index.sqlite')
  // The feed keeps its used tokens beside the index, and may be there first.
  mkdirSync(dirname(databasePath), { recursive: true })
  const network = { plcUrl: settings.plcUrl, logLevel: settings.logLevel }
  // The services talk to each other on private addresses.
  const own = [addressOf(relayPort), addressOf(streamPort)]
  const allowedPrivateHosts = [...settings.allowedPrivateHosts, ...own].join(',')
  const labelers = settings.labelers.join(',')

  return [
    plan('relay', addressOf(relayPort), {
      ...network,
      host,
      port: String(relayPort),
      dataDirectory: join(dataDirectory, 'relay'),
      sources: settings.sources.join(','),
      allowedPrivateHosts: settings.allowedPrivateHosts.join(','),
    }),
    plan('stream', addressOf(streamPort), {
      ...network,
      host,
      port: String(streamPort),
      dataDirectory: join(dataDirectory, 'stream'),
      relayUrl: `ws://${addressOf(relayPort)}`,
      allowedPrivateHosts,
      // The relay beside it has verified everything already.
      verify: 'off',
      collections: upCollections.join(','),
      apiKeys: `${indexKeyName}:${archiveKey}`,
      operatorToken,
    }),
    plan('index', addressOf(indexPort), {
      ...network,
      host,
      port: String(indexPort),
      databasePath,
      streamUrl: `http://${addressOf(streamPort)}`,
      apiKey: archiveKey,
      labelers,
      allowedPrivateHosts,
    }),
    plan('feed', addressOf(feedPort), {
      ...network,
      host,
      port: String(feedPort),
      databasePath,
      serviceDid: settings.feedServiceDid,
      labelers,
      allowedPrivateHosts,
    }),
  ]
}

function plan(name: ServiceName, address: string, settings: Record<string, string>): ServicePlan {
  const prefix: Prefix = `TRIBUTARY_${name.toUpperCase() as Uppercase<ServiceName>}` // toUpperCase returns just that
  const variables = Object.entries(settings).map(([key, value]) => [variableName(prefix, key), value])
  const env = childEnvironment(Object.fromEntries(variables), prefix)
  return { name, entry: serviceEntry(name), env, url: `http://${address}` }
}
