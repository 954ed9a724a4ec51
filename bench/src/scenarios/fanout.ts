import { delaysMs, percentile, serveLoad } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import { fanoutCpu, type Figure, type Reference } from '../lib/figure.ts'
import { phaseCommits, runPhase, warmUp, type Subject } from '../lib/fixed-rate.ts'
import { peers } from '../lib/peers.ts'
import { eventsUrl, firehoseUrl, socketUrl, startRelay, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { everyCommit, readWatchedEvents, type WatchedEvents } from '../lib/watched-events.ts'

/** Which runs a scenario makes. */
interface FanoutPlan {
  /** Commits a second. */
  rate: number
  readerCounts: readonly number[]
}

/** What each delivery costs at a fixed rate, by the number of readers. */
export async function fanout(bench: Bench): Promise<Figure[]> {
  return measureFanout(bench, { rate: 400, readerCounts: [1, 100, 400] })
}

/** The same with 1,000 readers. */
export async function fanoutMany(bench: Bench): Promise<Figure[]> {
  return measureFanout(bench, { rate: 400, readerCounts: [1000] })
}

/** The same with many events. */
export async function fanoutFast(bench: Bench): Promise<Figure[]> {
  return measureFanout(bench, { rate: 2000, readerCounts: [100] })
}

async function measureFanout(bench: Bench, plan: FanoutPlan): Promise<Figure[]> {
  const watched = readWatchedEvents(bench.loadFile)
  const relay = await relayFanout(bench, plan)
  const relayStock = await stockFanout(bench, plan, 'frames', everyCommit)
  const stream = await streamFanout(bench, plan, watched)
  const streamStock = await stockFanout(bench, plan, 'json', watched)
  return [
    ...figuresOf({ name: 'relay', plan, ours: relay, stock: relayStock, others: peers.relayFanout }),
    ...figuresOf({ name: 'stream', plan, ours: stream, stock: streamStock, others: peers.streamFanout }),
  ]
}

interface Measured {
  readers: number
  deliveries: number
  cpuSeconds: number
  /** Of the same intake without a reader: before and after. */
  intakeCpuSeconds: readonly [before: number, after: number]
  cpuPerMillion: number
  delays: Float64Array
}

interface Comparison {
  name: string
  plan: FanoutPlan
  ours: readonly Measured[]
  stock: readonly Measured[]
  others: ReadonlyMap<number, readonly Reference[]>
}

function figuresOf({ name, plan: { rate }, ours, stock, others }: Comparison): Figure[] {
  return ours.flatMap((measured, index): Figure[] => {
    const { readers, deliveries, cpuSeconds, intakeCpuSeconds, cpuPerMillion, delays } = measured
    const theirs = stock[index]
    const beside = (valueOf: (measured: Measured) => number): Reference[] =>
      theirs === undefined ? [] : [{ name: 'ws.send per message, this run', value: valueOf(theirs) }]
    const delay = (share: number): Figure => {
      const valueOf = (measured: Measured): number => percentile(measured.delays, share)
      return {
        name: `  delay p${share * 100}`,
        value: percentile(delays, share),
        unit: 'ms',
        better: 'lower',
        references: beside(valueOf),
      }
    }
    return [
      {
        name: `${name}, ${readers} reader${readers === 1 ? '' : 's'} at ${rate}/s`,
        value: cpuPerMillion,
        unit: 'CPU s per million deliveries',
        better: 'lower',
        references: [
          ...beside((measured) => measured.cpuPerMillion),
          ...(rate === peers.fanoutRate ? (others.get(readers) ?? []) : []),
        ],
        note: `${deliveries} deliveries; ${cpuSeconds.toFixed(2)} CPU s, the intake alone ${intakeCpuSeconds.map((seconds) => seconds.toFixed(2)).join(' before and ')} after`,
      },
      delay(0.5),
      delay(0.99),
    ]
  })
}

async function relayFanout(bench: Bench, plan: FanoutPlan): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay(bench, host)
  const url = firehoseUrl(relay)
  return await runPlan(bench, { name: 'relay', host, process: relay, url, shown: everyCommit }, plan)
}

async function streamFanout(bench: Bench, plan: FanoutPlan, shown: WatchedEvents): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay({ ...bench, profileDirectory: undefined }, host)
  await using stream = await startStream(bench, host, relay, { VERIFY: 'off' })
  return await runPlan(bench, { name: 'stream', host, process: stream, url: eventsUrl(stream), shown }, plan)
}

/** Stock parts cannot verify at this rate, so they only pass on. */
async function stockFanout(
  bench: Bench,
  plan: FanoutPlan,
  output: 'frames' | 'json',
  shown: WatchedEvents,
): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: false, output })
  const subject = { name: `stock ${output}`, host, process: stock, url: socketUrl(stock), shown }
  return await runPlan(bench, subject, plan)
}

/** The intake alone is measured before and after, since a process gets cheaper while its code is still compiled. */
async function runPlan(
  bench: Bench,
  subject: Subject,
  { rate, readerCounts }: FanoutPlan,
): Promise<Measured[]> {
  await warmUp(bench, subject)
  const count = phaseCommits(bench, rate * bench.effort.phaseSeconds, readerCounts.length + 2)
  const run = (readers: number) => runPhase(bench, subject, { readers, rate, count })
  const before = await run(0)
  const results = []
  for (const readers of readerCounts) results.push({ readers, ...(await run(readers)) })
  const after = await run(0)
  const intakeCpuSeconds = [before.cpuSeconds, after.cpuSeconds] as const
  const idleCpuSeconds = (before.cpuSeconds + after.cpuSeconds) / 2
  const sentMs = await subject.host.sendTimesMs()
  return results.map(({ readers, cpuSeconds, deliveries, arrivalsMs }) => ({
    readers,
    deliveries,
    cpuSeconds,
    intakeCpuSeconds,
    cpuPerMillion: fanoutCpu({ cpuSeconds, deliveries }, idleCpuSeconds),
    delays: delaysMs(sentMs, arrivalsMs),
  }))
}
