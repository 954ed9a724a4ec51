import { serveLoad, startCountReader, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure, Reference } from '../lib/figure.ts'
import { peers } from '../lib/peers.ts'
import { introduce, readThrough } from '../lib/measure.ts'
import { eventsUrl, firehoseUrl, socketUrl, startRelay, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { readWatchedEvents } from '../lib/watched-events.ts'

/**
 * Readers that come before the others, so that one-time costs are not counted: the handshakes of some hundred readers let
 * the space for young objects grow to its full size, 16 MB, and it stays so.
 */
const firstReaders = 1000

interface Subject {
  name: string
  process: ServiceProcess
  /** Where readers read live. */
  url: string
}

interface Sizes {
  atStart: number
  /** With the first readers. */
  withFirst: number
  /** Of each that comes after them. */
  perReader: number
  afterLoad: number
}

/**
 * Resident memory: at rest, of one reader that is connected and gets nothing, and after the whole load was taken in
 * flat out. Relay, stream and reference are measured side by side, since memory does not need the processor.
 */
export async function memory(bench: Bench): Promise<Figure[]> {
  return measureMemory(bench, bench.effort.idleReaders)
}

/** The same with 5,000 readers. */
export async function memoryMany(bench: Bench): Promise<Figure[]> {
  return measureMemory(bench, 5000)
}

async function measureMemory(bench: Bench, readers: number): Promise<Figure[]> {
  const { commits } = bench.load.parameters
  const watched = readWatchedEvents(bench.loadFile)
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay(bench, host)
  await using stream = await startStream(bench, host, relay, { VERIFY: 'off' })
  await using stock = await startStock(bench, host, { verifies: false, output: 'frames' })
  const subjects: Subject[] = [
    { name: 'relay', process: relay, url: firehoseUrl(relay) },
    { name: 'stream', process: stream, url: eventsUrl(stream) },
    { name: 'stock', process: stock, url: socketUrl(stock) },
  ]
  const atStart = await quietBytes(bench, subjects, 'memory at start')
  const connected = await connectedBytes(bench, subjects, readers)
  bench.say('taking in the load')
  await stock.stop()
  await introduce({ host, process: relay, url: firehoseUrl(relay) })
  await host.play()
  await readThrough(stream, eventsUrl(stream, 1), watched(commits))
  const running = subjects.filter(({ process }) => process.isRunning)
  const afterLoad = await quietBytes(bench, running, 'memory after the load')
  const sizesOf = (index: number): Sizes => ({
    atStart: atStart[index] ?? NaN,
    withFirst: connected[index]?.withFirst ?? NaN,
    perReader: connected[index]?.perReader ?? NaN,
    afterLoad: afterLoad[index] ?? NaN,
  })
  const stockSizes = sizesOf(2)
  return [
    ...figuresOf('relay', readers, sizesOf(0), stockSizes, {
      atStart: peers.relayMemoryAtStart,
      perReader: peers.relayMemoryPerReader,
      afterLoad: peers.relayMemoryAfterLoad,
    }),
    ...figuresOf('stream', readers, sizesOf(1), stockSizes, {
      atStart: peers.streamMemoryAtStart,
      perReader: peers.streamMemoryPerReader,
      afterLoad: peers.streamMemoryAfterLoad,
    }),
  ]
}

function figuresOf(
  name: string,
  readers: number,
  sizes: Sizes,
  stock: Sizes,
  others: Partial<Record<keyof Sizes, readonly Reference[]>>,
): Figure[] {
  const figure = (key: keyof Sizes, what: string, unit: string, unitBytes: number): Figure => ({
    name: `${name}, ${what}`,
    value: sizes[key] / unitBytes,
    unit,
    better: 'lower',
    references: [
      ...(Number.isNaN(stock[key]) ? [] : [{ name: 'stock parts, this run', value: stock[key] / unitBytes }]),
      ...(others[key] ?? []),
    ],
  })
  return [
    figure('atStart', 'resident at start', 'MB', 1e6),
    figure('afterLoad', 'resident after the load', 'MB', 1e6),
    figure('withFirst', `resident with ${firstReaders} idle readers`, 'MB', 1e6),
    figure('perReader', `per idle reader, of ${readers} more`, 'kB', 1000),
  ]
}

async function connectedBytes(
  bench: Bench,
  subjects: readonly Subject[],
  readers: number,
): Promise<Pick<Sizes, 'withFirst' | 'perReader'>[]> {
  await using stack = new AsyncDisposableStack()
  const open = async (connections: number): Promise<void> => {
    for (const { url } of subjects) stack.use(await startCountReader({ url, connections }))
  }
  await open(firstReaders)
  const before = await quietBytes(bench, subjects, `memory with ${firstReaders} readers`)
  await open(readers)
  const after = await quietBytes(bench, subjects, `memory with ${readers} more readers`)
  return after.map((bytes, index) => ({
    withFirst: before[index] ?? NaN,
    perReader: (bytes - (before[index] ?? NaN)) / readers,
  }))
}

/** Resident bytes of each after some silence: collectors give memory back when nothing happens. */
async function quietBytes(bench: Bench, subjects: readonly Subject[], what: string): Promise<number[]> {
  bench.say(`${what}: ${bench.effort.quietSeconds} s of silence`)
  await new Promise((resolve) => setTimeout(resolve, bench.effort.quietSeconds * 1000))
  return subjects.map(({ process }) => process.memoryBytes())
}
