/** `tributary up`: all services of one machine, on one data directory, until it is told to stop. */
import { once } from 'node:events'
import { feedExtraCollections } from '@tributary/protocol'
import { listHosts, type RelayHost } from '../relay-hosts.ts'
import type { ServiceName } from '../service-entry.ts'
import { stopSignal } from '../stop-signal.ts'
import { DataDirectory, DirectoryLockedError } from './data-directory.ts'
import { renderLine } from './log-line.ts'
import { planServices } from './service-plan.ts'
import type { UpSettings } from './settings.ts'
import { type ServiceState, Supervisor } from './supervisor.ts'

/**
 * Runs until SIGINT or SIGTERM, or until every service is down. Returns the exit code. The settings file has sections
 * for the services too; `up`'s own settings win over what they say.
 */
export async function runUp(settings: UpSettings, settingsFile?: string): Promise<number> {
  const signal = stopSignal()
  let directory: DataDirectory
  try {
    directory = new DataDirectory(settings.dataDirectory)
  } catch (error) {
    if (!(error instanceof DirectoryLockedError)) throw error
    process.stderr.write(`tributary up: ${error.message}\n`)
    return 1
  }
  using locked = directory
  const services = planServices(settings, locked, settingsFile)
  const style = process.stderr.isTTY ? 'terminal' : 'json'
  const allDown = new AbortController()
  await using supervisor = new Supervisor({
    services,
    onLine: (name, line) => process.stderr.write(`${renderLine(name, line, style)}\n`),
    onState: (name, state) => {
      process.stdout.write(`${statusLine(name, state)}\n`)
      if ([...supervisor.states.values()].every(({ is }) => is === 'down')) allDown.abort()
    },
  })

  process.stdout.write(`data       ${locked.path}\nplc        ${settings.plcUrl}\n`)
  process.stdout.write(
    `note       besides the default collections a new stream watches ${feedExtraCollections.join(' and ')}, which the feed shows\n`,
  )
  locked.noteRun({ pid: process.pid, services: services.map(({ name, url }) => ({ name, url })) })
  const ended = AbortSignal.any([signal, allDown.signal])
  const asked = ended.aborted ? Promise.resolve() : once(ended, 'abort')
  await Promise.race([supervisor.start(), asked])
  const relay = supervisor.states.get('relay')
  if (relay?.is === 'ready' && !signal.aborted) await reportSources(relay.url, signal)
  process.send?.({ ready: true })
  await asked
  return signal.aborted ? 0 : 1
}

function statusLine(name: ServiceName, state: ServiceState): string {
  const label = `${name.padEnd(10)} ${state.is.padEnd(8)}`
  switch (state.is) {
    case 'ready':
      return `${label} ${state.url} (pid ${state.pid})`
    case 'waiting':
      return `${label} starts again in ${state.delayMs} ms: ${state.reason}`
    case 'down':
      return `${label} stays down: ${state.reason}`
    default:
      return label.trimEnd()
  }
}

/** Says which PDSs the relay listens to, or how to give it one. */
async function reportSources(relayUrl: string, signal: AbortSignal): Promise<void> {
  let hosts: RelayHost[]
  try {
    hosts = await listHosts(relayUrl, signal)
  } catch {
    // It was ready a moment ago: either we are stopping, or its status line says what happened.
    return
  }
  const text =
    hosts.length > 0
      ? `sources    ${hosts.map(({ hostname }) => hostname).join(', ')}`
      : 'sources    none yet: name PDSs with --sources pds.example.com, or TRIBUTARY_UP_SOURCES=pds.example.com. They are remembered'
  process.stdout.write(`${text}\n`)
}
