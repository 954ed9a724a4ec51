import { join } from 'node:path'
import type { ServiceProcess } from '@tributary/testkit'
import type { ArchiveReaderSettings, ArchiveReading } from '../archive-reader.ts'
import type { Bench } from '../lib/bench.ts'
import type { Figure, Reference } from '../lib/figure.ts'
import { makeArchive } from '../lib/made-archive.ts'
import { usageOf } from '../lib/measure.ts'
import { peers } from '../lib/peers.ts'
import { archiveKey, startReader, startService } from '../lib/services.ts'
import { decompressionSeconds } from '../lib/zstd-program.ts'

/** How many rows are read for each commit of the load, which is how large a run is asked for. */
const rowsPerCommit = 13

/** A large archive out of a stream process, read by a client in a process of its own: rows, records, and lines of JSON. */
export async function client(bench: Bench): Promise<Figure[]> {
  const rows = bench.load.parameters.commits * rowsPerCommit
  const directory = bench.newDirectory('archive')
  bench.say(`client: writing an archive of ${rows} rows`)
  await makeArchive(directory, rows)
  // Before the stream starts, which begins a segment of its own.
  const bare: Reference = {
    name: 'zstd -d of the same blocks, this run',
    value: rows / (await decompressionSeconds(bench, directory)),
  }
  await using stream = await startService(bench, 'stream', {
    DATA_DIRECTORY: directory,
    RELAY_URL: 'ws://127.0.0.1:1',
    API_KEYS: `bench:${archiveKey}`,
  })
  const output = join(bench.newDirectory('lines'), 'out.ndjson')
  const figures: Figure[] = []
  const ways = [
    { way: 'client', name: 'with records untouched', references: [bare, ...peers.backfillByClock] },
    { way: 'records', name: 'with every record decoded', references: [bare] },
    { way: 'ndjson', name: 'as lines of JSON into a file', references: [bare] },
  ] as const
  for (const { way, name, references } of ways) {
    bench.say(`client: ${name}`)
    const { byClock, microsOfCpu, memoryBytes } = await read(bench, stream, { way, output, rows })
    figures.push(
      {
        name: `archive of ${rows} rows ${name}`,
        value: byClock,
        unit: 'rows/s',
        better: 'higher',
        references: [...references],
      },
      {
        name: `CPU of the client ${name}`,
        value: microsOfCpu,
        unit: 'µs a row',
        better: 'lower',
        references: [],
      },
      {
        name: `peak memory ${name}`,
        value: memoryBytes / 1e6,
        unit: 'MB',
        better: 'lower',
        references: [...peers.backfillMemory],
      },
    )
  }
  return figures
}

async function read(
  bench: Bench,
  stream: ServiceProcess,
  { way, output, rows }: Pick<ArchiveReaderSettings, 'way' | 'rows'> & { output: string },
): Promise<{ byClock: number; microsOfCpu: number; memoryBytes: number }> {
  await using reader = await startReader(bench, { way, url: stream.url, apiKey: archiveKey, rows, output })
  let reading: ArchiveReading = { rows: 0, memoryBytes: 0 }
  const { seconds, cpuSeconds } = await usageOf(reader, async () => {
    reading = await reader.request<ArchiveReading>('read')
  })
  if (reading.rows !== rows) throw new Error(`${way} read ${reading.rows} rows of ${rows}`)
  return { byClock: rows / seconds, microsOfCpu: (cpuSeconds * 1e6) / rows, memoryBytes: reading.memoryBytes }
}
