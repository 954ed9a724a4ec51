/** `tributary status`: whether the services of an `up` are ready, whether what they serve is fresh, and why not. */
import { resolve } from 'node:path'
import { hasFields } from './answer-lists.ts'
import { readBytes } from './call-service.ts'
import { counted } from './counted.ts'
import { rebuildTrouble } from './index/rebuild-text.ts'
import { OperatorClient, relayPrefix, type Json } from './operator/operator-client.ts'
import { printable, writeTable } from './operator/text-table.ts'
import { printJson } from './print-json.ts'
import { readRunNote, type RunNote } from './up/data-directory.ts'

const answerTimeoutMs = 3000
const answerBytesMax = 1024 * 1024
const hostLinesMax = 50

export interface StatusOptions {
  dataDirectory: string
  json: boolean
  wide: boolean
}

/** What a service says of itself. */
interface Report {
  state: 'ready' | 'stale' | 'not ready' | 'no answer'
  /** Why it is not well, a sentence each. */
  faults: string[]
  version?: unknown
  /** Where it stands, in the numbers that those who read it see. */
  headSeq?: number
  /** Where it stands, in the numbers of what it reads. */
  cursor?: number
  /** When the newest event that it has read was made, as a time in text. */
  newestEventTime?: string
  lagSeconds?: number
  /** What it reads, and in which state that is. */
  reads?: string
}

type Service = RunNote['services'][number]

/**
 * Prints the state of every service of the `up` that runs on a data directory, and below it everything that is stale,
 * paused or down, a line each. Returns 0 when there is no such line, else 1.
 */
export async function printStatus(
  dataDirectory: string,
  { json, wide }: Omit<StatusOptions, 'dataDirectory'>,
): Promise<number> {
  const note = readRunNote(dataDirectory)
  if (note === undefined && json) {
    printJson({ services: [], faults: ['nothing runs'] })
    return 1
  }
  if (note === undefined) {
    process.stdout.write(
      `nothing runs on ${dataDirectory}: start it with tributary up,\nor name its data directory with --data-directory\n`,
    )
    return 1
  }
  const reports = new Map<string, Report>()
  for (const { name, report } of await Promise.all(
    note.services.map(async (service) => ({ name: service.name, report: await reportOf(service) })),
  ))
    reports.set(name, report)
  const isGone = [...reports.values()].every(({ state }) => state === 'no answer') && !isRunning(note.pid)
  if (isGone) for (const service of note.services) forgetProcess(service)
  const faults = isGone
    ? [`tributary up has ended without a stop (process ${note.pid}): start it again`]
    : [...reports].flatMap(([name, report]) => report.faults.map((fault) => `${name}: ${fault}`))
  const relay = note.services.find(({ name }) => name === 'relay')
  const relayReport = reports.get('relay')
  if (relay && relayReport && relayReport.state !== 'no answer') {
    const hosts = await hostsOf(relay.url, resolve(dataDirectory, 'operator-token'))
    faults.push(...hosts.faults)
    if (hosts.reads !== undefined) relayReport.reads = hosts.reads
  }
  const rows = note.services.map((service) => rowOf(service, note.services, reports))
  if (json) {
    printJson({ services: rows, faults })
    return faults.length === 0 ? 0 : 1
  }
  const table = rows.map(({ name, since, lagEvents, lagSeconds, ...row }) => ({
    service: name,
    ...row,
    lag: lagText(lagEvents, lagSeconds),
    upFor: since && durationOf(Date.now() - Date.parse(since)),
    since,
  }))
  writeTable(table, columns, { isWide: wide })
  for (const fault of faults) process.stdout.write(`${printable(fault)}\n`)
  return faults.length === 0 ? 0 : 1
}

/** Whether there is such a process on this machine. One of another user cannot be signalled, and is there. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH')
  }
}

/** What is known of a process that is no more says nothing of the service. */
function forgetProcess(service: Service): void {
  delete service.pid
  delete service.since
}

const columns = ['service', 'state', 'url', 'lag', 'reads', 'upFor', 'pid', 'version', 'since', 'upstream']
const upstreams: Readonly<Record<string, string>> = { stream: 'relay', index: 'stream' }

function rowOf(
  { name, url, pid, since }: Service,
  services: readonly Service[],
  reports: ReadonlyMap<string, Report>,
) {
  const report = reports.get(name)
  const upstream = services.find((service) => service.name === upstreams[name])
  const behind = (reports.get(upstream?.name ?? '')?.headSeq ?? NaN) - (report?.cursor ?? NaN)
  const lagEvents = Number.isNaN(behind) ? undefined : Math.max(0, behind)
  return {
    name,
    state: report?.state,
    // Each of the three words by itself: it answers, it serves, and what it serves is up to what it reads.
    isLive: report !== undefined && report.state !== 'no answer',
    isReady: report?.state === 'ready' || report?.state === 'stale',
    isFresh: report?.state === 'ready',
    url,
    lagEvents,
    lagSeconds: report?.lagSeconds ?? secondsBehind(lagEvents, report?.newestEventTime),
    reads: report?.reads,
    upstream: upstream?.url,
    pid,
    version: report?.version,
    since,
  }
}

/** How old the newest event is that a service has read, as far as there are newer ones. */
function secondsBehind(events: number | undefined, newestEventTime: string | undefined): number | undefined {
  if (events === 0) return 0
  const age = (Date.now() - Date.parse(newestEventTime ?? '')) / 1000
  return events === undefined || Number.isNaN(age) ? undefined : Math.max(0, age)
}

function lagText(events: number | undefined, seconds: number | undefined): string {
  const parts = [
    ...(events === undefined ? [] : [counted(events, 'event')]),
    ...(seconds === undefined ? [] : [`${Math.round(seconds)} s`]),
  ]
  return parts.join(', ')
}

function durationOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`
}

async function reportOf({ name, url, fault }: Service): Promise<Report> {
  const [ready, health, fresh] = await Promise.all([
    ask(`${url}/ready`),
    ask(`${url}/_health`),
    name === 'relay' ? ask(`${url}/fresh`) : undefined,
  ])
  if (!ready) return { state: 'no answer', faults: [fault ?? 'It does not answer.'] }
  // As the services answer. What another one answers there is shown only.
  const { reason = 'It does not say why.', headSeq } = ready.body as ReadyAnswer
  const { version } = (health?.body ?? {}) as { version?: string }
  const relay = upstreamIn(ready.body['relay'])
  const stream = upstreamIn(health?.body['stream'])
  const { reasons: said, lagSeconds } = (fresh?.body ?? {}) as FreshAnswer
  const reasons = Array.isArray(said) ? said.map(String) : ['It does not say how fresh it is.']
  const upstream = relay ?? stream
  const known = {
    version,
    ...(headSeq !== undefined && { headSeq }),
    ...(lagSeconds !== undefined && { lagSeconds }),
    ...(upstream && { cursor: upstream.cursor, reads: `${relay ? 'relay' : 'stream'} ${upstream.state}` }),
    ...(upstream?.newestEventTime !== undefined && { newestEventTime: upstream.newestEventTime }),
    ...(name === 'feed' && { reads: 'index database' }),
  }
  if (!ready.isOk) return { ...known, state: 'not ready', faults: [`It is not ready: ${reason}`] }
  if (relay && relay.state !== 'connected')
    return { ...known, state: 'stale', faults: [relayFaults[relay.state] ?? notConnected(relay.state)] }
  const isStale = name === 'relay' && fresh?.isOk !== true
  const trouble = rebuildTrouble(health?.body)
  const faults = trouble === undefined ? [] : [`Its rebuild does not go on: ${trouble}`]
  return { ...known, state: isStale ? 'stale' : 'ready', faults: isStale ? reasons : faults }
}

/** Why a stream that may well be connected does not read its relay, by the state that it tells. */
const relayFaults: Readonly<Record<string, string>> = {
  'paused-disk-floor': 'It does not read its relay: less disk is free than diskFreeMegabytesMin.',
}

function notConnected(state: string): string {
  return `It is not connected to its relay: ${state}.`
}

interface Upstream {
  state: string
  cursor: number
  newestEventTime?: string
}

function upstreamIn(value: unknown): Upstream | undefined {
  return hasFields(value, { state: 'string' }) ? (value as unknown as Upstream) : undefined
}

interface ReadyAnswer {
  reason?: string
  headSeq?: number
}

interface FreshAnswer {
  reasons?: unknown
  lagSeconds?: number
}

/** The JSON object that an address answers with. Undefined when there is none in time. */
export async function ask(url: string): Promise<{ isOk: boolean; body: Json } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerTimeoutMs) })
    const body: unknown = JSON.parse((await readBytes(response, answerBytesMax)).toString())
    return hasFields(body, {}) ? { isOk: response.ok, body } : undefined
  } catch {
    return undefined
  }
}

/** States in which a source brings nothing although it should, or although somebody may have forgotten that it does not. */
const faultyStates = ['unreachable', 'stuck', 'throttled', 'disabled']

/** States in which a source is read: one that is `connecting` is neither read nor faulty yet. */
const readStates = ['connected', 'idle']

/** What the relay reads, and its sources that are not read, in the words of `relay hosts list`. */
async function hostsOf(
  url: string,
  operatorTokenFile: string,
): Promise<{ reads?: string; faults: readonly string[] }> {
  let hosts: Json[]
  try {
    hosts = await new OperatorClient(url, operatorTokenFile, relayPrefix).rows('listHosts', 'hosts')
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { faults: [`relay: Its sources cannot be listed: ${why}`] }
  }
  const read = hosts.filter(({ state }) => readStates.includes(String(state)))
  // While nothing is read at all, the errors of those that are dialled tell why.
  const isFaulty = ({ state, lastError }: Json): boolean =>
    faultyStates.includes(String(state)) ||
    (read.length === 0 && state === 'connecting' && lastError !== undefined)
  const faulty = hosts.filter(isFaulty)
  const lines = faulty.slice(0, hostLinesMax).map(describeHost)
  if (faulty.length > lines.length) lines.push(`and ${counted(faulty.length - lines.length, 'more source')}`)
  return { reads: `${read.length} of ${counted(hosts.length, 'PDS')}`, faults: lines }
}

function describeHost(host: Json): string {
  const { hostname, state, stateReason, lagSeconds, lastError } = host as Record<string, string | undefined> // or numbers
  const reason = stateReason === undefined ? '' : ` (${stateReason})`
  const error = lastError === undefined ? '' : `: ${lastError}`
  return `source ${hostname}: ${state}${reason}, ${lagSeconds} s behind${error}`
}
