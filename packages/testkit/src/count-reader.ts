/**
 * Many readers of one event stream in a child process: they count messages and look at nothing but
 * WebSocket headers, so that what is measured is the server. `startCountReader` starts it with its
 * settings as JSON in the first argument.
 *
 * When asked to, the first reader also notes when each event of a recorded load arrives. An event is
 * known by its `rev`, which the load makes from the event's index, and which stands in binary and in
 * JSON messages alike; so host and reader share nothing but the machine's clock.
 */
import { readFileSync } from 'node:fs'
import { answerRequests, reportReady } from './child-requests.ts'
import { openCountingConnection } from './counting-connection.ts'
import { eventIndexOf } from './load-file.ts'
import { monotonicMs } from './load-replay.ts'

/** Settings of the child. */
export interface CountReaderSettings {
  /** `ws:` address with path and query. */
  url: string
  connections: number
  /** A file with a line for each connection: what its query has besides that of `url`, such as `dids=…&dids=…`. */
  queriesFile?: string
  /** How many addresses of this machine the connections come from, in turn: 127.0.1.1 and those after it. Linux only. */
  addresses?: number
  /** The load whose events the first reader notes the arrival of. */
  measures?: { startMicros: number; stepMicros: number; count: number }
}

/** What the readers have seen so far. */
export interface CountReport {
  messages: number
  bytes: number
  /** Of the reader with the fewest and of the one with the most messages. */
  messagesMin: number
  messagesMax: number
  open: number
  /** Why connections ended, by close code and reason, with how many of them did. */
  closes: Record<string, number>
}

const openingMax = 64
const revChars = 13
/** A text of 13 characters under the key `rev`, in CBOR and in JSON. */
const binaryRev = Buffer.from('crevm', 'latin1')
const jsonRev = Buffer.from('"rev":"', 'latin1')

const settings = JSON.parse(process.argv[2] ?? '') as CountReaderSettings // reason: written by startCountReader.
const { measures } = settings
const queries =
  settings.queriesFile === undefined ? [] : readFileSync(settings.queriesFile, 'latin1').split('\n')
const messages = new Float64Array(settings.connections)
const arrivalsMs = new Float64Array(measures?.count ?? 0)
const closes: Record<string, number> = {}
let bytes = 0
let open = 0
/** Readers that have not seen `target` messages yet, and who waits for them. */
let target = 0
let behind = 0
let reached = (): void => undefined
/** Messages of all readers together, and who waits for a number of them. */
let total = 0
let totalTarget = Infinity
let totalReached = (): void => undefined
const someClosed = Promise.withResolvers<void>()

function countMessage(reader: number, messageBytes: number): void {
  bytes += messageBytes
  const count = (messages[reader] ?? 0) + 1
  messages[reader] = count
  if (count === target && --behind === 0) reached()
  if (++total === totalTarget) totalReached()
}

function urlOf(reader: number): URL {
  const url = new URL(settings.url)
  const query = queries[reader]
  if (query) url.search += `${url.search === '' ? '?' : '&'}${query}`
  return url
}

/** Undefined for the one that the system takes. */
function addressOf(reader: number): string | undefined {
  return settings.addresses === undefined ? undefined : `127.0.1.${1 + (reader % settings.addresses)}`
}

function noteArrival(payload: Buffer): void {
  if (measures === undefined) return
  const pattern = payload[0] === 0x7b ? jsonRev : binaryRev
  const at = payload.indexOf(pattern)
  if (at < 0) return
  const start = at + pattern.length
  const event = eventIndexOf(measures, payload.toString('latin1', start, start + revChars))
  if (arrivalsMs[event] === 0) arrivalsMs[event] = monotonicMs()
}

async function openReader(reader: number): Promise<void> {
  let reason = 'no close frame'
  const { socket, opened } = openCountingConnection(
    urlOf(reader),
    {
      onMessage(messageBytes, payload) {
        countMessage(reader, messageBytes)
        if (payload !== undefined) noteArrival(payload)
      },
      onClose(code, text) {
        reason = `${code} ${text}`.trim()
        socket.end()
      },
    },
    { keepsPayloads: measures !== undefined && reader === 0, localAddress: addressOf(reader) },
  )
  await opened
  open += 1
  socket.once('close', () => {
    open -= 1
    closes[reason] = (closes[reason] ?? 0) + 1
    someClosed.resolve()
  })
}

async function openAll(): Promise<void> {
  const waiting = messages.keys()
  const work = async (): Promise<void> => {
    for (const reader of waiting) await openReader(reader)
  }
  await Promise.all(Array.from({ length: openingMax }, work))
}

answerRequests({
  report: (): CountReport => ({
    messages: total,
    bytes,
    messagesMin: messages.reduce((least, count) => Math.min(least, count), Infinity),
    messagesMax: messages.reduce((most, count) => Math.max(most, count), 0),
    open,
    closes,
  }),
  waitFor: (count: number) =>
    new Promise<void>((resolve) => {
      target = count
      behind = messages.reduce((sum, seen) => sum + (seen < count ? 1 : 0), 0)
      reached = resolve
      if (behind === 0) resolve()
    }),
  waitForTotal: (count: number) =>
    new Promise<void>((resolve) => {
      totalTarget = count
      totalReached = resolve
      if (total >= count) resolve()
    }),
  waitForClose: () => someClosed.promise,
  arrivals: () => arrivalsMs,
})
await openAll()
reportReady(settings.url, () => process.exit(0))
