/** `tributary status`: whether the services of an `up` are ready, whether what they serve is fresh, and why not. */
import { join } from 'node:path'
import { OperatorClient, relayPrefix, type Json } from './operator/operator-client.ts'
import { printable } from './operator/text-table.ts'
import { printJson } from './print-json.ts'
import { readRunNote, type RunNote } from './up/data-directory.ts'

const answerTimeoutMs = 3000
const hostLinesMax = 50

/** What a service says of itself: a word, and why it is not well, a sentence each. */
interface Report {
  word: string
  faults: string[]
}

type Service = RunNote['services'][number]

/**
 * Prints the state of every service of the `up` that runs on a data directory, and below it everything that is stale,
 * paused or down, a line each. Returns 0 when there is no such line, else 1.
 */
export async function printStatus(dataDirectory: string, json: boolean): Promise<number> {
  const note = readRunNote(dataDirectory)
  if (note === undefined && json) {
    printJson({ services: [], faults: ['nothing runs'] })
    return 1
  }
  if (note === undefined) {
    process.stdout.write(`nothing runs on ${dataDirectory}: start it with tributary up\n`)
    return 1
  }
  const reports = await Promise.all(note.services.map(reportOf))
  const faults = note.services.flatMap(
    ({ name }, at) => reports[at]?.faults.map((fault) => `${name}: ${fault}`) ?? [],
  )
  const relay = note.services.find(({ name }) => name === 'relay')
  if (relay && reports[note.services.indexOf(relay)]?.word !== noAnswer)
    faults.push(...(await hostFaults(relay.url, join(dataDirectory, 'operator-token'))))
  if (json) {
    const services = note.services.map(({ name, url }, at) => ({ name, url, state: reports[at]?.word }))
    printJson({ services, faults })
    return faults.length === 0 ? 0 : 1
  }
  note.services.forEach(({ name, url }, at) => {
    process.stdout.write(`${name.padEnd(8)} ${reports[at]?.word.padEnd(10)} ${url}\n`)
  })
  for (const fault of faults) process.stdout.write(`${printable(fault)}\n`)
  return faults.length === 0 ? 0 : 1
}

const noAnswer = 'no answer'

async function reportOf({ name, url, fault }: Service): Promise<Report> {
  const ready = await ask(`${url}/ready`)
  if (!ready) return { word: noAnswer, faults: [fault ?? 'It does not answer.'] }
  const { reason = 'It does not say why.', relay } = ready.body as {
    reason?: string
    relay?: { state: string } // of a stream
  }
  if (!ready.isOk) return { word: 'not ready', faults: [`It is not ready: ${reason}`] }
  if (relay && relay.state !== 'connected')
    return { word: 'stale', faults: [`It is not connected to its relay: ${relay.state}.`] }
  if (name !== 'relay') return { word: 'ready', faults: [] }
  const fresh = await ask(`${url}/fresh`)
  if (fresh?.isOk === true) return { word: 'ready', faults: [] }
  const { reasons = ['It does not say how fresh it is.'] } = (fresh?.body ?? {}) as { reasons?: string[] } // as /fresh answers
  return { word: 'stale', faults: reasons }
}

async function ask(url: string): Promise<{ isOk: boolean; body: Json } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerTimeoutMs) })
    return { isOk: response.ok, body: (await response.json()) as Json } // objects, all of them
  } catch {
    return undefined
  }
}

/** States in which a source brings nothing although it should, or although somebody may have forgotten that it does not. */
const faultyStates = ['unreachable', 'stuck', 'throttled', 'disabled']

/** Sources that are not read, in the words of `relay hosts list`. */
async function hostFaults(url: string, operatorTokenFile: string): Promise<string[]> {
  let hosts: Json[]
  try {
    hosts = await new OperatorClient(url, operatorTokenFile, relayPrefix).rows('listHosts', 'hosts')
  } catch (error) {
    return [`relay: Its sources cannot be listed: ${error instanceof Error ? error.message : String(error)}`]
  }
  const faulty = hosts.filter(({ state }) => faultyStates.includes(String(state)))
  const lines = faulty.slice(0, hostLinesMax).map(describeHost)
  if (faulty.length > lines.length) lines.push(`and ${faulty.length - lines.length} more sources`)
  return lines
}

function describeHost(host: Json): string {
  const { hostname, state, stateReason, lagSeconds, lastError } = host as Record<string, string | undefined> // or numbers
  const reason = stateReason === undefined ? '' : ` (${stateReason})`
  const error = lastError === undefined ? '' : `: ${lastError}`
  return `source ${hostname}: ${state}${reason}, ${lagSeconds} s behind${error}`
}
