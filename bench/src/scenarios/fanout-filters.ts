import { percentile, delaysMs, serveLoad, startCountReader } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import { fanoutCpu, type Figure, type Reference } from '../lib/figure.ts'
import { phaseCommits, runPhase, warmUp, type Subject } from '../lib/fixed-rate.ts'
import { allSeen, usageOf } from '../lib/measure.ts'
import { halfOfAccounts, halfOfCollections, writeFilters, type ReaderFilters } from '../lib/reader-filters.ts'
import { eventsUrl, socketUrl, startRelay, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { firstOf, readShownEvents, type ShownEvent } from '../lib/watched-events.ts'

/** Events a second. */
const rate = 400
/** Addresses of the readers: the stream bounds the DIDs that one address may name. */
export const readerAddresses = 50

interface Phase {
  readers: number
  /** Undefined for readers without a filter. */
  filters: ReaderFilters | undefined
}

interface Measured extends Phase {
  deliveries: number
  cpuPerMillion: number
  p99: number
}

/** What a delivery costs when each reader has a filter of its own that takes half, beside readers without one. */
export async function fanoutFilters(bench: Bench): Promise<Figure[]> {
  const events = readShownEvents(bench.loadFile)
  const kinds = [halfOfCollections, halfOfAccounts(bench.load)]
  const plan = bench.effort.filteredReaders.flatMap((readers) =>
    [undefined, ...kinds].map((filters): Phase => ({ readers, filters })),
  )
  const ours = await measureStream(bench, plan, events)
  const filtered = plan.filter(({ filters }) => filters !== undefined)
  const stock = await measureStock(bench, filtered, events)
  return ours.flatMap((measured) => figuresOf(measured, ours, stock))
}

function figuresOf(measured: Measured, ours: readonly Measured[], stock: readonly Measured[]): Figure[] {
  const { filters, readers, cpuPerMillion, p99, deliveries } = measured
  if (filters === undefined) return []
  const others = [
    {
      name: 'as many readers without a filter, this run',
      of: findPhase(ours, { readers, filters: undefined }),
    },
    { name: 'a set for each reader and ws.send, this run', of: findPhase(stock, measured) },
  ]
  const beside = (valueOf: (measured: Measured) => number): Reference[] =>
    others.flatMap(({ name, of }) => (of ? [{ name, value: valueOf(of) }] : []))
  return [
    {
      name: `stream, ${readers} readers at ${rate}/s, each ${filters.name}`,
      value: cpuPerMillion,
      unit: 'CPU s per million deliveries',
      better: 'lower',
      references: beside((each) => each.cpuPerMillion),
      note: `${deliveries} deliveries, less the CPU of the same intake without readers`,
    },
    { name: '  delay p99', value: p99, unit: 'ms', better: 'lower', references: beside((each) => each.p99) },
  ]
}

function findPhase(measured: readonly Measured[], { readers, filters }: Phase): Measured | undefined {
  return measured.find((each) => each.readers === readers && each.filters === filters)
}

async function measureStream(
  bench: Bench,
  plan: readonly Phase[],
  events: readonly ShownEvent[],
): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay({ ...bench, profileDirectory: undefined }, host)
  await using stream = await startStream(bench, host, relay, { VERIFY: 'off' })
  const shown = (commits: number): number => firstOf(events, commits)
  const subject = { name: 'stream', host, process: stream, url: eventsUrl(stream), shown }
  return await runPlan(bench, subject, plan, events)
}

async function measureStock(
  bench: Bench,
  plan: readonly Phase[],
  events: readonly ShownEvent[],
): Promise<Measured[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: false, output: 'json' })
  const shown = (commits: number): number => firstOf(events, commits)
  const subject = { name: 'stock', host, process: stock, url: socketUrl(stock), shown }
  return await runPlan(bench, subject, plan, events)
}

/** The intake alone is measured before and after, since a process gets cheaper while its code is still compiled. */
async function runPlan(
  bench: Bench,
  subject: Subject,
  plan: readonly Phase[],
  events: readonly ShownEvent[],
): Promise<Measured[]> {
  await warmUp(bench, subject)
  const count = phaseCommits(bench, rate * bench.effort.phaseSeconds, plan.length + 2)
  const before = await runPhase(bench, subject, { readers: 0, rate, count })
  const results = []
  for (const phase of plan)
    results.push({ ...phase, ...(await runFiltered(bench, subject, phase, { count, events })) })
  const after = await runPhase(bench, subject, { readers: 0, rate, count })
  const idleCpuSeconds = (before.cpuSeconds + after.cpuSeconds) / 2
  const sentMs = await subject.host.sendTimesMs()
  return results.map(({ readers, filters, deliveries, cpuSeconds, arrivalsMs }) => ({
    readers,
    filters,
    deliveries,
    cpuPerMillion: fanoutCpu({ cpuSeconds, deliveries }, idleCpuSeconds),
    p99: percentile(delaysMs(sentMs, arrivalsMs), 0.99),
  }))
}

async function runFiltered(
  bench: Bench,
  { name, host, process, url }: Subject,
  { readers, filters }: Phase,
  { count, events }: { count: number; events: readonly ShownEvent[] },
): Promise<{ deliveries: number; cpuSeconds: number; arrivalsMs: Float64Array }> {
  bench.say(`${name}: ${readers} readers, ${filters?.name ?? 'no filter'}`)
  const from = await host.position()
  const written = filters && writeFilters(bench, filters, readers)
  await using reader = await startCountReader({
    url,
    connections: readers,
    addresses: readerAddresses,
    measures: bench.load,
    ...(written && { queriesFile: written.queriesFile }),
  })
  const unfiltered = (firstOf(events, from + count) - firstOf(events, from)) * readers
  const deliveries = written ? written.wanted(events, from, from + count) : unfiltered
  const { messages: before } = await reader.report()
  const { cpuSeconds } = await usageOf(process, async () => {
    await host.play({ rate, count })
    await allSeen(reader, before + deliveries, process, 'together')
  })
  return { deliveries, cpuSeconds, arrivalsMs: await reader.arrivalsMs() }
}
