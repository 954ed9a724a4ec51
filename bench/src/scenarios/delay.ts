import { delaysMs, percentile, serveLoad, startCountReader } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure, Reference } from '../lib/figure.ts'
import { phaseCommits, runPhase, warmUp, type PhaseResult, type Subject } from '../lib/fixed-rate.ts'
import { fdatasyncMs } from '../lib/machine.ts'
import { readThrough, type Usage } from '../lib/measure.ts'
import { quantileBetween, readHistogram } from '../lib/metrics.ts'
import { peers } from '../lib/peers.ts'
import { eventsUrl, firehoseUrl, socketUrl, startRelay, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { everyCommit, readWatchedEvents, type WatchedEvents } from '../lib/watched-events.ts'

const rate = 500
/** The relay is also measured where events come one by one, and where they come in each other's way. */
const otherRates = [10, 2000]
const logSyncs = 'relay_log_sync_seconds'

interface Delays {
  p50: number
  p99: number
}

interface Measured {
  delays: Delays
  cores: number
}

/** The relay's delays at a rate, and the syncs of its log meanwhile. */
interface AtRate extends Measured {
  rate: number
  logSync: Delays
}

/** From the arrival of an event to its one reader, at fixed rates, and the cores that it takes. */
export async function delay(bench: Bench): Promise<Figure[]> {
  const watched = readWatchedEvents(bench.loadFile)
  const { relay, otherwise, stream, chain, disk } = await measureChain(bench, watched)
  const stockRelay = await measureStock(bench, 'frames', everyCommit)
  const stockStream = await measureStock(bench, 'json', watched)
  const written = await measureWritten(bench)
  const ownSyncs = "the relay log's own syncs, this run"
  const diskName = "the disk's own fdatasync of 16 kB, this run"
  return [
    ...delayFigures('relay, durable', relay.delays, [
      ['stock parts, not verified, not stored, this run', stockRelay.delays],
      [diskName, disk],
      [ownSyncs, relay.logSync],
      ...peers.relayDelay,
    ]),
    ...otherwise.flatMap((each) => [
      ...delayFigures('relay, durable', each.delays, [[ownSyncs, each.logSync]], each.rate),
      coresFigure('relay', each.cores, [], each.rate),
    ]),
    ...delayFigures('relay, logVisible=written', written.delays, [['durable, this run', relay.delays]]),
    ...delayFigures('stream alone, durable', stream.delays, [
      ['stock parts, not verified, not stored, this run', stockStream.delays],
      [diskName, disk],
      ...peers.streamDelay,
    ]),
    ...delayFigures('PDS → relay → stream → reader', chain, peers.chainDelay),
    coresFigure('relay', relay.cores, [
      { name: 'stock parts, not verifying, this run', value: stockRelay.cores },
      ...peers.relayCores,
    ]),
    coresFigure('stream, verify=off', stream.cores, [
      { name: 'stock parts, this run', value: stockStream.cores },
      ...peers.streamCores,
    ]),
  ]
}

function delayFigures(
  name: string,
  delays: Delays,
  others: readonly (readonly [name: string, delays: Delays])[],
  atRate = rate,
): Figure[] {
  return (['p50', 'p99'] as const).map((key) => ({
    name: `${name}, ${key} at ${atRate}/s`,
    value: delays[key],
    unit: 'ms',
    better: 'lower',
    references: others.map(([other, values]) => ({ name: other, value: values[key] })),
  }))
}

function coresFigure(name: string, cores: number, references: readonly Reference[], atRate = rate): Figure {
  return { name: `${name}, cores at ${atRate}/s`, value: cores, unit: 'cores', better: 'lower', references }
}

/** The relay by itself first, then with the stream behind it. */
async function measureChain(
  bench: Bench,
  watched: WatchedEvents,
): Promise<{ relay: AtRate; otherwise: AtRate[]; stream: Measured; chain: Delays; disk: Delays }> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay(bench, host)
  const relaySubject = { name: 'relay', host, process: relay, url: firehoseUrl(relay), shown: everyCommit }
  const disk = fdatasyncMs(bench.newDirectory('sync'))
  await warmUp(bench, relaySubject)
  const otherwise: AtRate[] = []
  for (const other of otherRates) otherwise.push(await measureAt(bench, relaySubject, other))
  // Last, when compiling is over: what a relay costs that has run for a while.
  const alone = await measureAt(bench, relaySubject, rate)

  await using stream = await startStream(bench, host, relay, { VERIFY: 'off' })
  bench.say('stream: catching up')
  const known = watched(await host.position())
  await readThrough(stream, eventsUrl(stream, 1), known)
  await using atRelay = await startCountReader({ url: firehoseUrl(relay), measures: bench.load })
  const streamSubject = { name: 'stream', host, process: stream, url: eventsUrl(stream), shown: watched }
  const behind = await settledPhase(bench, streamSubject, rate)
  return {
    relay: alone,
    otherwise,
    stream: { delays: summary(await atRelay.arrivalsMs(), behind.arrivalsMs), cores: coresOf(behind) },
    chain: summary(await host.sendTimesMs(), behind.arrivalsMs),
    disk,
  }
}

async function measureAt(bench: Bench, subject: Subject, atRate: number): Promise<AtRate> {
  const before = await readHistogram(subject.process, logSyncs)
  const result = await settledPhase(bench, subject, atRate)
  const after = await readHistogram(subject.process, logSyncs)
  const syncMs = (share: number): number => quantileBetween(before, after, share) * 1000
  return {
    rate: atRate,
    delays: summary(await subject.host.sendTimesMs(), result.arrivalsMs),
    cores: coresOf(result),
    logSync: { p50: syncMs(0.5), p99: syncMs(0.99) },
  }
}

/** Consumers see events before they are on the disk. */
async function measureWritten(bench: Bench): Promise<Measured> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay(bench, host, { LOG_VISIBLE: 'written' })
  const name = 'relay, written'
  return await measureOne(bench, { name, host, process: relay, url: firehoseUrl(relay), shown: everyCommit })
}

async function measureStock(
  bench: Bench,
  output: 'frames' | 'json',
  shown: WatchedEvents,
): Promise<Measured> {
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: false, output })
  const name = `stock ${output}`
  return await measureOne(bench, { name, host, process: stock, url: socketUrl(stock), shown })
}

async function measureOne(bench: Bench, subject: Subject): Promise<Measured> {
  await warmUp(bench, subject)
  const result = await settledPhase(bench, subject, rate)
  return { delays: summary(await subject.host.sendTimesMs(), result.arrivalsMs), cores: coresOf(result) }
}

/**
 * A phase at a rate, when what only runs at that rate has been compiled: a quarter of it goes ahead and does not count.
 * One at each rate of the relay, one of the stream, and what warming up takes fit into the load.
 */
async function settledPhase(bench: Bench, subject: Subject, atRate: number): Promise<PhaseResult> {
  const count = phaseCommits(bench, atRate * bench.effort.delaySeconds, otherRates.length + 2)
  const ahead = Math.floor(count / 4)
  await runPhase(bench, subject, { readers: 1, rate: atRate, count: ahead })
  return await runPhase(bench, subject, { readers: 1, rate: atRate, count: count - ahead })
}

function summary(sentMs: Float64Array, arrivedMs: Float64Array): Delays {
  const delays = delaysMs(sentMs, arrivedMs)
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99) }
}

function coresOf({ cpuSeconds, seconds }: Usage): number {
  return cpuSeconds / seconds
}
