import { serveLoad, startCountReader, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { phaseCommits, warmUp, type Subject } from '../lib/fixed-rate.ts'
import { usageOf } from '../lib/measure.ts'
import { readCounter } from '../lib/metrics.ts'
import { noAccounts, noCollection, writeFilters, type ReaderFilters } from '../lib/reader-filters.ts'
import { eventsUrl, socketUrl, startRelay, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { firstOf, readShownEvents, type ShownEvent } from '../lib/watched-events.ts'
import { readerAddresses } from './fanout-filters.ts'

/** Events a second. */
const rate = 2000
const handledPollMs = 100
const handledMsMax = 120_000
/** The reference falls behind with more. */
const stockReadersMax = 1000

interface Measured {
  filters: ReaderFilters
  /** Of a core, above the same intake without readers. */
  cores: number
  /** Resident memory that the readers added. */
  bytes: number
}

interface Watched extends Subject {
  readers: number
  /** Messages that the process has made so far. */
  handled: () => Promise<number>
}

/** What readers cost whose filters let nothing through: CPU at many events a second, and memory. */
export async function fanoutNothing(bench: Bench): Promise<Figure[]> {
  const events = readShownEvents(bench.loadFile)
  const readers = bench.effort.readersOfNothing
  const stockReaders = Math.min(readers, stockReadersMax)
  const ours = await measureStream(bench, events, readers)
  const stock = await measureStock(bench, events, stockReaders)
  const name = `a set for each of ${stockReaders} readers, asked for each event, this run`
  return ours.flatMap(({ filters, cores, bytes }): Figure[] => {
    const theirs = stock.find((each) => each.filters === filters)
    return [
      {
        name: `stream, ${readers} readers of ${filters.name}, at ${rate}/s`,
        value: cores,
        unit: 'cores above the intake',
        better: 'lower',
        references: theirs ? [{ name, value: theirs.cores }] : [],
      },
      {
        name: '  memory of these readers',
        value: bytes / 1e6,
        unit: 'MB',
        better: 'lower',
        references: theirs ? [{ name, value: theirs.bytes / 1e6 }] : [],
      },
    ]
  })
}

async function measureStream(
  bench: Bench,
  events: readonly ShownEvent[],
  readers: number,
): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay({ ...bench, profileDirectory: undefined }, host)
  await using stream = await startStream(bench, host, relay, { VERIFY: 'off' })
  const shown = (commits: number): number => firstOf(events, commits)
  const handled = async (): Promise<number> => await readCounter(stream, 'stream_rows_total')
  const url = eventsUrl(stream)
  return await runPlan(bench, { name: 'stream', host, process: stream, url, shown, handled, readers })
}

async function measureStock(
  bench: Bench,
  events: readonly ShownEvent[],
  readers: number,
): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: false, output: 'json' })
  const shown = (commits: number): number => firstOf(events, commits)
  const handled = async (): Promise<number> => await stock.request<number>('handled')
  return await runPlan(bench, {
    name: 'stock',
    host,
    process: stock,
    url: socketUrl(stock),
    shown,
    handled,
    readers,
  })
}

async function runPlan(bench: Bench, subject: Watched): Promise<Measured[]> {
  await warmUp(bench, subject)
  const plan = [noCollection, noAccounts]
  const count = phaseCommits(bench, rate * bench.effort.phaseSeconds, plan.length + 2)
  const play = async (): Promise<number> =>
    (await usageOf(subject.process, () => playAll(subject, count))).cpuSeconds
  const before = await play()
  const phases: { filters: ReaderFilters; bytes: number; cpuSeconds: number }[] = []
  for (const filters of plan) {
    const bytesBefore = await quietBytes(bench, subject.process)
    bench.say(`${subject.name}: readers of ${filters.name}`)
    const { url, readers } = subject
    const { queriesFile } = writeFilters(bench, filters, readers)
    await using _ = await startCountReader({
      url,
      connections: readers,
      addresses: readerAddresses,
      queriesFile,
    })
    const bytes = (await quietBytes(bench, subject.process)) - bytesBefore
    phases.push({ filters, bytes, cpuSeconds: await play() })
  }
  const after = await play()
  const intakeCpuSeconds = (before + after) / 2
  return phases.map(({ filters, bytes, cpuSeconds }) => ({
    filters,
    bytes,
    cores: (cpuSeconds - intakeCpuSeconds) / (count / rate),
  }))
}

/** Plays further commits until the process has handled all of them. Nobody tells: the readers get nothing. */
async function playAll({ host, shown, handled }: Watched, count: number): Promise<void> {
  const from = await host.position()
  const handledBefore = await handled()
  await host.play({ rate, count })
  const wanted = handledBefore + shown(from + count) - shown(from)
  const endMs = performance.now() + handledMsMax
  while ((await handled()) < wanted) {
    if (performance.now() > endMs) throw new Error(`not handled within ${handledMsMax / 1000} s`)
    await new Promise((resolve) => setTimeout(resolve, handledPollMs))
  }
}

/** Resident bytes after some silence: collectors give memory back when nothing happens. */
async function quietBytes(bench: Bench, process: ServiceProcess): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, bench.effort.quietSeconds * 1000))
  return process.memoryBytes()
}
