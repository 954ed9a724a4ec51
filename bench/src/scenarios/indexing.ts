import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { indexedCollections } from '@tributary/protocol'
import { Postgres, runOnPostgres, sampleCollections, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { makeArchive } from '../lib/made-archive.ts'
import { usageOf } from '../lib/measure.ts'
import { archiveKey, startService } from '../lib/services.ts'

const lookMs = 20
/** No index is slower. */
const standstillMs = 120_000
/** The end of the archive, whose speed is told apart. */
const lastShare = 0.25

/** An index on an empty database reads a whole archive out of a stream process, in SQLite and in PostgreSQL. */
export async function indexing(bench: Bench): Promise<Figure[]> {
  const rows = bench.effort.indexedRows
  const directory = bench.newDirectory('archive')
  bench.say(`indexing: writing an archive of ${rows} rows`)
  await makeArchive(directory, rows)
  await using stream = await startService(bench, 'stream', {
    DATA_DIRECTORY: directory,
    RELAY_URL: 'ws://127.0.0.1:1',
    API_KEYS: `bench:${archiveKey}`,
  })
  const sqlite = { DATABASE_PATH: join(bench.newDirectory('index'), 'index.sqlite') }
  const figures = await measure(bench, stream, 'SQLite', sqlite, rows)
  await using server = await Postgres.start()
  await runOnPostgres(server.urlOf('postgres'), 'create database indexed')
  const postgres = { DATABASE_URL: server.urlOf('indexed') }
  return [...figures, ...(await measure(bench, stream, 'PostgreSQL', postgres, rows))]
}

async function measure(
  bench: Bench,
  stream: ServiceProcess,
  name: string,
  database: Record<string, string>,
  rows: number,
): Promise<Figure[]> {
  bench.say(`indexing: ${name}`)
  await using index = await startService(bench, 'index', {
    ...database,
    STREAM_URL: stream.url,
    API_KEY: archiveKey,
    PLC_URL: 'http://127.0.0.1:1',
  })
  const indexed: readonly string[] = indexedCollections
  const share = sampleCollections.filter((each) => indexed.includes(each)).length / sampleCollections.length
  const startMs = performance.now()
  let [lastCursor, lastMs] = [0, startMs]
  const { seconds, cpuSeconds } = await usageOf(index, async () => {
    const from = await reached(index, rows * (1 - lastShare))
    ;[lastCursor, lastMs] = [from, performance.now()]
    await reached(index, rows)
  })
  const lastSeconds = (performance.now() - lastMs) / 1000
  const figure = (what: string, value: number, note: string): Figure => ({
    name: `archive into ${name}, ${what}`,
    value,
    unit: 'rows/s',
    better: 'higher',
    references: [],
    note,
  })
  const note = `${Math.round(rows * share)} records of collections that are indexed, of ${rows} rows; client included`
  return [
    figure('by the clock', (rows * share) / seconds, note),
    figure('the last quarter', ((rows - lastCursor) * share) / lastSeconds, note),
    figure('per CPU second of the index', (rows * share) / cpuSeconds, note),
  ]
}

/** Waits until the index has come so far; how far it is then. */
async function reached(index: ServiceProcess, seq: number): Promise<number> {
  let [last, movedMs] = [-1, performance.now()]
  for (;;) {
    const answer = await fetch(`${index.url}/_health`)
    const { stream } = (await answer.json()) as { stream?: { cursor: number } } // as status-server.ts has it
    const cursor = stream?.cursor ?? 0
    if (cursor >= seq) return cursor
    if (cursor !== last) [last, movedMs] = [cursor, performance.now()]
    if (performance.now() - movedMs > standstillMs)
      throw new Error(`the index stands at ${cursor} of ${seq}: ${index.stderr}`)
    await pause(lookMs)
  }
}
