/** `tributary up`: all services of one machine, on one data directory, until it is told to stop. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { feedExtraCollections } from '@tributary/protocol'
import { printable } from '../operator/text-table.ts'
import { listHosts, type RelayHost } from '../relay-hosts.ts'
import type { ServiceName } from '../service-entry.ts'
import { stopSignal } from '../stop-signal.ts'
import { renderLine } from './log-line.ts'
import type { RunNote } from './data-directory.ts'
import { labelersOf, prepareUp } from './prepare.ts'
import { type ServiceState, Supervisor } from './supervisor.ts'

/** sysexits.h EX_CONFIG: no new start helps before the settings are changed. */
const exitCodeSettings = 78
/** How long a note that could not be written waits. */
const noteAgainMs = 10_000

/**
 * Runs until SIGINT or SIGTERM. Returns the exit code. The settings file has sections for the services too. What of
 * them does not count is told in a line each.
 */
export async function runUp(args: readonly string[], settingsFile?: string): Promise<number> {
  const signal = stopSignal()
  const prepared = await prepareUp(args, settingsFile)
  if ('faults' in prepared) {
    const { faults, areSettings } = prepared
    const head = areSettings ? 'settings need attention' : 'nothing was started'
    process.stderr.write(`tributary up: ${head}\n${faults.map((fault) => `  ${fault}\n`).join('')}`)
    return areSettings ? exitCodeSettings : 1
  }
  const { settings, services } = prepared
  using locked = prepared.directory
  const labelers = labelersOf(services)
  const style = process.stderr.isTTY ? 'terminal' : 'json'
  const note = new Map<string, RunNote['services'][number]>(
    services.map(({ name, url }) => [name, { name, url }]),
  )
  await using supervisor = new Supervisor({
    services,
    onLine: (name, line) => process.stderr.write(`${renderLine(name, line, style)}\n`),
    onState: (name, state) => {
      process.stdout.write(`${printable(statusLine(name, state))}\n`)
      // While it is started again, why it ended last is still why it does not run.
      const service = note.get(name)
      if (service && state.is === 'waiting') {
        delete service.pid
        delete service.since
        service.fault = state.reason
      }
      if (service && state.is === 'ready') {
        delete service.fault
        Object.assign(service, { pid: state.pid, since: new Date().toISOString() })
      }
      noteRun()
    },
  })
  let isNoted = true
  let noteAgain: NodeJS.Timeout | undefined
  /** A disk without room ends no service that can go on: the note is made when there is room. */
  const noteRun = (): void => {
    clearTimeout(noteAgain)
    try {
      locked.noteRun({ pid: process.pid, labelers, services: [...note.values()] })
      isNoted = true
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (isNoted) process.stdout.write(`note       tributary status may be out of date: ${reason}\n`)
      isNoted = false
      noteAgain = setTimeout(noteRun, noteAgainMs).unref()
    }
  }

  process.stdout.write(`data       ${locked.path}\nplc        ${settings.plcUrl}\n`)
  process.stdout.write(`labelers   ${labelers.join(', ') || 'none: organizations are not rated'}\n`)
  const isNew = !existsSync(join(locked.path, 'stream'))
  if (isNew && services.some(({ given }) => given.includes('TRIBUTARY_STREAM_COLLECTIONS')))
    process.stdout.write(
      `note       besides the default collections the stream watches ${feedExtraCollections.join(' and ')}, which the feed shows\n`,
    )
  for (const line of services.flatMap(({ notes }) => notes)) process.stdout.write(`note       ${line}\n`)
  noteRun()
  const asked = signal.aborted ? Promise.resolve() : once(signal, 'abort')
  await Promise.race([supervisor.start(), asked])
  const relay = supervisor.states.get('relay')
  if (relay?.is === 'ready' && !signal.aborted) await reportSources(relay.url, signal)
  process.send?.({ ready: true })
  await asked
  return 0
}

function statusLine(name: ServiceName, state: ServiceState): string {
  const label = `${name.padEnd(10)} ${state.is.padEnd(8)}`
  switch (state.is) {
    case 'ready':
      return `${label} ${state.url} (pid ${state.pid})`
    case 'waiting':
      return `${label} starts again in ${state.delayMs} ms: ${state.reason}`
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
  process.stdout.write(`${printable(text)}\n`)
}
