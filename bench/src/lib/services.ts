/** The processes under test, started as an operator starts them: settings in the environment, nothing shared. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProcess, type LoadHost, type ServiceProcess } from '@tributary/testkit'
import type { ArchiveReaderSettings } from '../archive-reader.ts'
import type { Bench } from './bench.ts'

const entryOf = (app: string): string =>
  fileURLToPath(new URL(`../../../apps/${app}/src/main.ts`, import.meta.url))

/** Options for Node that make a process write its CPU profile when it ends. */
export function profileOptions({ profileDirectory }: Bench): string[] {
  return profileDirectory === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDirectory}`]
}

/** Starts one of the programs. `settings` are its variables without the prefix of the program. */
export async function startService(
  bench: Bench,
  app: 'relay' | 'stream' | 'index' | 'feed',
  settings: Record<string, string>,
): Promise<ServiceProcess> {
  const prefix = `TRIBUTARY_${app.toUpperCase()}_`
  const all = { PORT: '0', LOG_LEVEL: 'warn', ...settings }
  const env = Object.fromEntries(Object.entries(all).map(([name, value]) => [prefix + name, value]))
  return startProcess(entryOf(app), { env, nodeOptions: profileOptions(bench) })
}

/** Starts a reader of a stream. It is somebody's program, so that it has not the larger heap that our services begin with. */
export async function startReader(bench: Bench, settings: ArchiveReaderSettings): Promise<ServiceProcess> {
  const entry = fileURLToPath(new URL('../archive-reader.ts', import.meta.url))
  const nodeOptions = ['--initial-old-space-size=0', ...profileOptions(bench)]
  return startProcess(entry, { args: [JSON.stringify(settings)], nodeOptions })
}

/** A relay on an empty data directory, connected to the hosts of the load. */
export async function startRelay(
  bench: Bench,
  host: LoadHost,
  settings: Record<string, string> = {},
): Promise<ServiceProcess> {
  return startService(bench, 'relay', {
    DATA_DIRECTORY: bench.newDirectory('relay'),
    PLC_URL: host.plcUrl,
    SOURCES: host.hosts.join(','),
    ALLOWED_PRIVATE_HOSTS: host.hosts.join(','),
    // Raised, since they would hold the load back: they are for the internet.
    ACCOUNT_QUOTA: '100000000',
    SOURCE_EVENTS_PER_SECOND: '1000000',
    CONSUMERS_PER_ADDRESS_MAX: String(subscribersPerAddress),
    ...settings,
  })
}

/** All readers have one address here. The limit is for the internet. */
const subscribersPerAddress = 10_000

/** What is not as an operator gets it, for the reader of the figures. */
export const raisedLimits = `limits raised: the relay's account quota and rate per source; the relay's consumers and the stream's subscribers per address, to ${subscribersPerAddress}`

/** Of the archive methods of every stream that is started here. */
export const archiveKey = 'bench-key-0123456789'

const operatorToken = 'bench-operator-0123456789'

/** A new file with the operator token, for the setting `OPERATOR_TOKEN`. */
export function operatorTokenFile(bench: Bench): string {
  const file = join(bench.newDirectory('token'), 'operator')
  writeFileSync(file, operatorToken)
  return file
}

/** Calls a method of the operator: a query, or a procedure, which some take an input for. */
export async function operate<T>(
  stream: ServiceProcess,
  verb: 'GET' | 'POST',
  method: string,
  input?: object,
): Promise<T> {
  const response = await fetch(`${stream.url}/xrpc/network.social.stream.admin.${method}`, {
    method: verb,
    headers: {
      authorization: `Bearer ${operatorToken}`,
      ...(input && { 'content-type': 'application/json' }),
    },
    ...(input && { body: JSON.stringify(input) }),
  })
  if (!response.ok) throw new Error(`${method} failed: ${response.status} ${await response.text()}`)
  return (await response.json()) as T // reason: the caller knows the lexicon.
}

/** A stream on an empty data directory that reads a relay. */
export async function startStream(
  bench: Bench,
  host: LoadHost,
  relay: ServiceProcess,
  settings: Record<string, string> = {},
): Promise<ServiceProcess> {
  return startService(bench, 'stream', {
    DATA_DIRECTORY: bench.newDirectory('stream'),
    RELAY_URL: socketUrl(relay),
    PLC_URL: host.plcUrl,
    ALLOWED_PRIVATE_HOSTS: [...host.hosts, new URL(relay.url).host].join(','),
    OPERATOR_TOKEN: operatorTokenFile(bench),
    API_KEYS: `bench:${archiveKey}`,
    SUBSCRIBERS_PER_ADDRESS_MAX: String(subscribersPerAddress),
    ...settings,
  })
}

/** Makes all that a stream has archived so far readable. */
export async function sealArchive(stream: ServiceProcess): Promise<void> {
  await operate(stream, 'POST', 'sealSegment')
}

export function socketUrl({ url }: ServiceProcess): string {
  return url.replace(/^http/, 'ws')
}

/** Where a relay's events are read. @param cursor of the request; live without it. */
export function firehoseUrl(relay: ServiceProcess, cursor?: number): string {
  const path = '/xrpc/com.atproto.sync.subscribeRepos'
  return `${socketUrl(relay)}${path}${cursor === undefined ? '' : `?cursor=${cursor}`}`
}

/** Where a stream's events are read. @param cursor of the request; live without it. */
export function eventsUrl(stream: ServiceProcess, cursor?: number): string {
  const path = '/xrpc/network.social.stream.subscribeEvents'
  return `${socketUrl(stream)}${path}${cursor === undefined ? '' : `?cursor=${cursor}`}`
}
