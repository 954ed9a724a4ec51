/**
 * Reads the whole archive of a stream once, in a process of its own: with our client, or in ways that others have.
 * Settings as JSON in the first argument. Answers the request `read` with what it saw.
 */
import { readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createStreamClient, NdjsonWriter } from '@tributary/client/node'
import { parseSegment } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
// Not from the whole testkit, whose 33 MB would count as the reader's.
import { answerRequests, reportReady } from '@tributary/testkit/child-requests'
import { WebSocket } from 'ws'

export interface ArchiveReaderSettings {
  /**
   * `client`: our client's snapshot. `records`: the same, and each record is decoded. `ndjson`: the same, as lines into the
   * file `output`. `parts`: every segment with `fetch`, each record decoded with `@atproto/repo`, no
   * retries and no filter. `live`: our client's live stream, each record looked at. `socket`: the same rows as JSON over a WebSocket, `ws` and `JSON.parse`.
   */
  way: 'client' | 'records' | 'ndjson' | 'parts' | 'live' | 'socket'
  /** Of the stream, `http:`. */
  url: string
  apiKey: string
  /** Where `live` and `socket` stop, because a live stream has no end. */
  rows: number
  output?: string
}

export interface ArchiveReading {
  rows: number
  /** Peak of the whole process. */
  memoryBytes: number
}

const settings = JSON.parse(process.argv[2] ?? '') as ArchiveReaderSettings // reason: written by the scenario.
const { url, apiKey } = settings

async function readWithClient(): Promise<number> {
  let rows = 0
  for await (const { events } of createStreamClient({ url, apiKey }).snapshot()) rows += events.length
  return rows
}

async function readRecords(): Promise<number> {
  let rows = 0
  for await (const { events } of createStreamClient({ url, apiKey }).snapshot())
    for (const event of events) if (event.kind === 'commit' && event.record !== undefined) rows++
  return rows
}

async function writeLines(): Promise<number> {
  let rows = 0
  // One makes lines while those of the other are written, as our command does it.
  let [writer, other] = [new NdjsonWriter(), new NdjsonWriter()]
  let writing = Promise.resolve()
  await using file = await open(settings.output ?? '', 'w')
  for await (const { events } of createStreamClient({ url, apiKey }).snapshot()) {
    const { bytes } = writer.lines(events)
    await writing
    writing = file.appendFile(bytes)
    ;[writer, other] = [other, writer]
    rows += events.length
  }
  await writing
  return rows
}

async function readWithParts(): Promise<number> {
  // The others shall not pay for its memory.
  const { cborToLexRecord } = await import('@atproto/repo')
  const headers = { authorization: `Bearer ${apiKey}` }
  const methods = `${url}/xrpc/network.social.stream`
  const list = await fetch(`${methods}.listSegments?limit=1000`, { headers })
  const { segments } = (await list.json()) as { segments: { name: string }[] } // reason: as the lexicon says.
  let rows = 0
  for (const { name } of segments) {
    const response = await fetch(`${methods}.getSegment?name=${name}`, { headers })
    const segment = parseSegment(new Uint8Array(await response.arrayBuffer()), nodeDecompress)
    for (const index of segment.blocks.keys()) {
      for (const { payload } of segment.readBlock(index).rows()) {
        if (payload.length > 0) cborToLexRecord(payload)
        rows++
      }
    }
  }
  return rows
}

async function readLive(): Promise<number> {
  let rows = 0
  for await (const { events } of createStreamClient({ url }).live({ cursor: 0 })) {
    for (const event of events)
      if (event.kind !== 'commit' || event.operation === 'delete' || event.record) rows++
    if (rows >= settings.rows) break
  }
  return rows
}

async function readWithSocket(): Promise<number> {
  const path = '/xrpc/network.social.stream.subscribeEvents?cursor=1'
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, { perMessageDeflate: false })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let rows = 0
  socket.on('message', (data: Buffer) => {
    JSON.parse(data.toString('utf8'))
    if (++rows === settings.rows) resolve(rows)
  })
  socket.on('error', reject)
  socket.on('close', () => reject(new Error('the stream closed the connection')))
  await promise
  socket.terminate()
  return rows
}

const ways = {
  client: readWithClient,
  records: readRecords,
  ndjson: writeLines,
  parts: readWithParts,
  live: readLive,
  socket: readWithSocket,
}

/** Of this program alone: what `resourceUsage` tells counts the memory of the parent from which it was forked. */
function peakBytes(): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  if (kilobytes === undefined) throw new Error('/proc/self/status has no VmHWM')
  return Number(kilobytes) * 1024
}

answerRequests({
  async read(): Promise<ArchiveReading> {
    const rows = await ways[settings.way]()
    return { rows, memoryBytes: peakBytes() }
  },
})
reportReady(url, () => process.exit(0))
