import {
  delaysMs,
  percentile,
  serveLoad,
  startCountReader,
  type LoadHost,
  type ServiceProcess,
} from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import { fanoutCpu, type Figure, type Reference } from '../lib/figure.ts'
import { allSeen, takeIn, usageOf } from '../lib/measure.ts'
import { peers } from '../lib/peers.ts'
import { eventsUrl, firehoseUrl, socketUrl, startRelay, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { readWatchedEvents, type WatchedEvents } from '../lib/watched-events.ts'

const eventsPerSecond = 400
/** None is the ingest alone, which is taken from the others. */
const readerCounts = [0, 1, 100, 400]

/** What each delivery costs at a fixed rate, by the number of readers. */
export async function fanout(bench: Bench): Promise<Figure[]> {
  const watched = readWatchedEvents(bench.loadFile)
  const every: WatchedEvents = (commits) => commits
  const relayed = await relayFanout(bench, every)
  const streamed = await streamFanout(bench, watched)
  return [
    ...figuresOf('relay', relayed, await stockFanout(bench, 'frames', every), peers.relayFanout),
    ...figuresOf('stream', streamed, await stockFanout(bench, 'json', watched), peers.streamFanout),
  ]
}

interface Phase {
  readers: number
  cpuPerMillion: number
  delayP50: number
  delayP99: number
}

function figuresOf(
  name: string,
  phases: Phase[],
  stock: Phase[],
  others: ReadonlyMap<number, readonly Reference[]>,
): Figure[] {
  return phases.flatMap((phase, index): Figure[] => {
    const { readers, cpuPerMillion, delayP50, delayP99 } = phase
    const at = `${name}, ${readers} reader${readers === 1 ? '' : 's'} at ${eventsPerSecond}/s`
    const theirs = stock[index]
    const stockName = 'ws.send per message, this run'
    const beside = (value: number | undefined): Reference[] =>
      value === undefined ? [] : [{ name: stockName, value }]
    return [
      {
        name: at,
        value: cpuPerMillion,
        unit: 'CPU s per million deliveries',
        better: 'lower',
        references: [...beside(theirs?.cpuPerMillion), ...(others.get(readers) ?? [])],
      },
      {
        name: '  delay p50',
        value: delayP50,
        unit: 'ms',
        better: 'lower',
        references: beside(theirs?.delayP50),
      },
      {
        name: '  delay p99',
        value: delayP99,
        unit: 'ms',
        better: 'lower',
        references: beside(theirs?.delayP99),
      },
    ]
  })
}

async function relayFanout(bench: Bench, shown: WatchedEvents): Promise<Phase[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay(bench, host)
  return await runPhases(bench, { name: 'relay', host, process: relay, url: firehoseUrl(relay), shown })
}

async function streamFanout(bench: Bench, shown: WatchedEvents): Promise<Phase[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay({ ...bench, profileDirectory: undefined }, host)
  await using stream = await startStream(bench, host, relay, { VERIFY: 'off' })
  return await runPhases(bench, { name: 'stream', host, process: stream, url: eventsUrl(stream), shown })
}

/** Stock parts cannot verify at this rate, so they only pass on. */
async function stockFanout(bench: Bench, output: 'frames' | 'json', shown: WatchedEvents): Promise<Phase[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: false, output })
  return await runPhases(bench, {
    name: `stock ${output}`,
    host,
    process: stock,
    url: socketUrl(stock),
    shown,
  })
}

interface PhaseRun {
  name: string
  host: LoadHost
  process: ServiceProcess
  /** Where readers read live. */
  url: string
  /** Messages that come out of the first so many commits. */
  shown: WatchedEvents
}

async function runPhases(bench: Bench, run: PhaseRun): Promise<Phase[]> {
  const { commits } = bench.load.parameters
  // Half of the load makes every account known, so that identities are not part of what is measured.
  const warm = Math.floor(commits / 2)
  bench.say(`${run.name}: warming up`)
  const { host, process, url, shown } = run
  await takeIn({ host, process, url, count: warm, messages: shown(warm) })
  const wanted = eventsPerSecond * bench.effort.phaseSeconds
  const count = Math.min(wanted, Math.floor((commits - warm) / readerCounts.length))
  const phases: Phase[] = []
  let idleCpuSeconds = 0
  for (const [index, readers] of readerCounts.entries()) {
    bench.say(`${run.name}: ${readers} readers`)
    const from = warm + index * count
    const { cpuSeconds, delays } = await runPhase(bench, run, { from, count, readers })
    if (readers === 0) idleCpuSeconds = cpuSeconds
    else {
      const deliveries = (shown(from + count) - shown(from)) * readers
      phases.push({
        readers,
        cpuPerMillion: fanoutCpu({ cpuSeconds, deliveries }, idleCpuSeconds),
        delayP50: percentile(delays, 0.5),
        delayP99: percentile(delays, 0.99),
      })
    }
  }
  return phases
}

async function runPhase(
  bench: Bench,
  { host, process, url, shown }: PhaseRun,
  { from, count, readers }: { from: number; count: number; readers: number },
): Promise<{ cpuSeconds: number; delays: Float64Array }> {
  const play = (): Promise<number> => host.play({ rate: eventsPerSecond, count })
  if (readers === 0) {
    const { cpuSeconds } = await usageOf(process, play)
    return { cpuSeconds, delays: new Float64Array(0) }
  }
  await using reader = await startCountReader({ url, connections: readers, measures: bench.load })
  const { cpuSeconds } = await usageOf(process, async () => {
    await play()
    const messages = shown(from + count) - shown(from)
    await allSeen(reader, messages, { process, limitSeconds: 120 })
  })
  return { cpuSeconds, delays: delaysMs(await host.sendTimesMs(), await reader.arrivalsMs()) }
}
