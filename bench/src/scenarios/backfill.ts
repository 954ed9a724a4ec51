import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { serveLoad, type ServiceProcess } from '@tributary/testkit'
import type { ArchiveReaderSettings, ArchiveReading } from '../archive-reader.ts'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { startFilledRelay } from '../lib/fill.ts'
import { readThrough, usageOf } from '../lib/measure.ts'
import { peers } from '../lib/peers.ts'
import { archiveKey, eventsUrl, sealArchive, startReader, startStream } from '../lib/services.ts'
import { readWatchedEvents } from '../lib/watched-events.ts'

/** A whole archive out of a stream process, read by a client in a process of its own. CPU is the client's. */
export async function backfill(bench: Bench): Promise<Figure[]> {
  const { commits } = bench.load.parameters
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startFilledRelay(bench, host)
  const directory = bench.newDirectory('archive')
  await using stream = await startStream(bench, host, relay, { VERIFY: 'off', DATA_DIRECTORY: directory })
  bench.say('stream: archiving')
  const rows = readWatchedEvents(bench.loadFile)(commits)
  await readThrough(stream, eventsUrl(stream, 1), rows)
  await sealArchive(stream)
  const ours = await read(bench, stream, 'client', rows)
  const parts = await read(bench, stream, 'parts', rows)
  const socket = await read(bench, stream, 'socket', rows)
  const partsName = 'every segment by fetch, @atproto/repo decodes, this run'
  const socketName = 'as JSON over ws with JSON.parse, this run'
  return [
    {
      name: `backfill of ${ours.rows} rows, by the clock`,
      value: ours.byClock,
      unit: 'rows/s',
      better: 'higher',
      references: [
        { name: partsName, value: parts.byClock },
        { name: socketName, value: socket.byClock },
        ...peers.backfillByClock,
      ],
      note: 'the start of the process is not counted, the compiling of its code is: more rows, better figures',
    },
    {
      name: 'backfill, per CPU second of the client',
      value: ours.perCpuSecond,
      unit: 'rows/s',
      better: 'higher',
      references: [
        { name: partsName, value: parts.perCpuSecond },
        { name: socketName, value: socket.perCpuSecond },
        ...peers.backfillPerCpuSecond,
      ],
    },
    {
      name: "backfill, the client's peak memory",
      value: ours.memoryBytes / 1e6,
      unit: 'MB',
      better: 'lower',
      references: [
        { name: partsName, value: parts.memoryBytes / 1e6 },
        { name: socketName, value: socket.memoryBytes / 1e6 },
        ...peers.backfillMemory,
      ],
    },
    {
      name: 'archive, on disk',
      value: segmentBytes(directory) / rows,
      unit: 'bytes per row',
      better: 'lower',
      references: peers.archiveBytesPerRow,
      note: 'depends on the records; those of the load are of few words',
    },
  ]
}

interface Measured extends ArchiveReading {
  byClock: number
  perCpuSecond: number
}

async function read(
  bench: Bench,
  stream: ServiceProcess,
  way: ArchiveReaderSettings['way'],
  rows: number,
): Promise<Measured> {
  bench.say(`backfill: ${way}`)
  await using reader = await startReader(bench, { way, url: stream.url, apiKey: archiveKey, rows })
  let reading: ArchiveReading = { rows: 0, memoryBytes: 0 }
  const { cpuSeconds, seconds } = await usageOf(reader, async () => {
    reading = await reader.request<ArchiveReading>('read')
  })
  if (reading.rows !== rows) throw new Error(`${way} read ${reading.rows} rows of ${rows}`)
  return { ...reading, byClock: rows / seconds, perCpuSecond: rows / cpuSeconds }
}

/** Size of all segment files in a data directory. */
function segmentBytes(directory: string): number {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => name.endsWith('.jss'))
  return files.reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)
}
