/**
 * What `tributary up` looks at before it starts anything: its own settings, those of every service, the data directory
 * and the ports. All that is wrong is told together, because whoever mends one fault wants to know of the next.
 */
import { createServer } from 'node:net'
import { normalizeHost } from '@tributary/identity'
import { givenToProgram, readProgramSettings, readSettings, type SettingsSpec } from '@tributary/settings'
import { DataDirectory, DirectoryLockedError } from './data-directory.ts'
import { serviceSettings } from '../service-settings.ts'
import { planServices, type PlannedDirectory, type ServicePlan } from './service-plan.ts'
import { upSettings, type UpSettings } from './settings.ts'

export interface Prepared {
  settings: UpSettings
  directory: DataDirectory
  services: readonly ServicePlan[]
}

export interface Faults {
  /** A sentence each. */
  faults: readonly string[]
  /** Whether any is of the settings, which nothing but a change of them mends. */
  areSettings: boolean
}

/** @param settingsFile the file that the arguments name, for the services too. */
export async function prepareUp(
  args: readonly string[],
  settingsFile: string | undefined,
): Promise<Prepared | Faults> {
  const { settings, problems: ownProblems } = readProgramSettings(upSettings, { args })
  const { directory, fault } = settings === undefined ? {} : openDirectory(settings.dataDirectory)
  const services =
    settings && directory
      ? planServices(settings, directory, { settingsFile, given: givenToProgram(upSettings, { args }) })
      : undefined
  const devProblems = settings && isOpenToOthers(settings, services) ? [openDev] : []
  const problems = [
    ...ownProblems,
    ...devProblems,
    ...(services ? problemsOf(services) : problemsWithoutPlan(settingsFile)),
  ]
  const faults = [...new Set(problems), ...(fault === undefined ? [] : [fault])]
  // The ports of a directory that is in use are in use too, and are not told.
  if (settings && directory) faults.push(...(await portFaults(settings, metricsListener(services))))
  if (settings && directory && services && faults.length === 0) return { settings, directory, services }
  directory?.[Symbol.dispose]()
  return { faults, areSettings: problems.length > 0 }
}

const openDev =
  '--dev lets whoever reaches the services make them call programs of this machine: leave it out, or --host and --trusted-proxies'

/** Whether others than the programs of this machine may reach services that call hosts of this machine. */
function isOpenToOthers({ dev, host }: UpSettings, services: readonly ServicePlan[] = []): boolean {
  return dev && (!['127.0.0.1', '::1', 'localhost'].includes(host) || services.some(hasProxy))
}

/** The labelers that count in the feed, which may have settings of its own. */
export function labelersOf(services: readonly ServicePlan[]): readonly string[] {
  const env = services.find(({ name }) => name === 'feed')?.env ?? {}
  return readProgramSettings(serviceSettings.feed, { env }).settings?.labelers ?? []
}

/** Whether a proxy is in front of this service, by the settings of `up` or by its own. */
function hasProxy({ name, env }: ServicePlan): boolean {
  const { settings = {} } = readProgramSettings<SettingsSpec>(serviceSettings[name], { env })
  const proxies = settings['trustedProxies']
  return Array.isArray(proxies) && proxies.length > 0
}

function openDirectory(path: string): { directory?: DataDirectory; fault?: string } {
  try {
    return { directory: new DataDirectory(path) }
  } catch (error) {
    if (error instanceof DirectoryLockedError) return { fault: error.message }
    return { fault: `the data directory ${path} cannot be used: ${messageOf(error)}` }
  }
}

/** What each service will find wrong with its settings when it starts, and sources that the relay would leave out. */
function problemsOf(services: readonly ServicePlan[]): string[] {
  return services.flatMap(({ name, env, problems }) => [
    ...(problems.length > 0 ? problems : readProgramSettings(serviceSettings[name], { env }).problems),
    ...(name === 'relay' ? sourceProblems(env) : []),
  ])
}

function sourceProblems(env: ServicePlan['env']): string[] {
  const { settings } = readProgramSettings(serviceSettings.relay, { env })
  if (settings === undefined) return []
  return settings.sources.flatMap((source) => {
    const host = normalizeHost(source, settings)
    if (!('error' in host)) return []
    return `${source} cannot be a source: ${host.error}; --dev allows hosts of this machine, --allowed-private-hosts other private ones`
  })
}

/** The same for as long as nothing is known of what `up` will give them. */
function problemsWithoutPlan(settingsFile: string | undefined): string[] {
  const nowhere: PlannedDirectory = { path: '', secret: () => ({ file: '', value: '' }) }
  return planServices(readSettings(upSettings, { env: {} }), nowhere, {
    settingsFile,
    given: new Map(),
  }).flatMap((plan) => {
    const isGiven = (problem: string) => plan.given.some((name) => new RegExp(`^${name}\\b`).test(problem))
    return problemsOf([plan]).filter((problem) => !isGiven(problem))
  })
}

interface Listener {
  name: string
  /** The flag or variable that gives it another port. */
  setting: string
  host: string
  port: number
}

/** The listener of the feed that only its own settings know of. */
function metricsListener(services: readonly ServicePlan[] = []): Listener | undefined {
  const env = services.find(({ name }) => name === 'feed')?.env
  const { settings } = env ? readProgramSettings(serviceSettings.feed, { env }) : {}
  if (settings?.metricsPort === undefined) return undefined
  const { metricsHost: host, metricsPort: port } = settings
  return { name: 'metrics of the feed', setting: 'TRIBUTARY_FEED_METRICS_PORT', host, port }
}

async function portFaults(settings: UpSettings, metrics: Listener | undefined): Promise<string[]> {
  const { host } = settings
  const wanted: Listener[] = [
    { name: 'relay', setting: '--relay-port', host, port: settings.relayPort },
    { name: 'stream', setting: '--stream-port', host, port: settings.streamPort },
    { name: 'index', setting: '--index-port', host: '127.0.0.1', port: settings.indexPort },
    { name: 'feed', setting: '--feed-port', host, port: settings.feedPort },
    ...(metrics ? [metrics] : []),
  ]
  const faults = new Set<string>()
  for (const [at, listener] of wanted.entries()) {
    const { name, port } = listener
    const other = wanted.slice(0, at).find((earlier) => earlier.port === port)
    const fault = other
      ? `port ${port} of the ${name} is that of the ${other.name} too`
      : await listenFault(listener)
    if (fault !== undefined) faults.add(fault)
  }
  return [...faults]
}

/** Listens for a moment. A host that cannot be listened on is the same fault for every port. */
async function listenFault({ name, setting, host, port }: Listener): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const server = createServer()
  server.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRNOTAVAIL' || error.syscall === 'getaddrinfo')
      return resolve(`the host ${host} is no address of this machine: give another one`)
    const fault =
      error.code === 'EADDRINUSE'
        ? `another program listens on it; stop that one, or give another port with ${setting}`
        : messageOf(error)
    resolve(`port ${port} of the ${name} cannot be used: ${fault}`)
  })
  server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  return await promise
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
