import { fileURLToPath } from 'node:url'
import type { CountReaderSettings, CountReport } from './count-reader.ts'
import type { LoadInfo } from './load-file.ts'
import { startProcess } from './service-process.ts'
import type { ServiceProcess } from './service-process.ts'

export interface CountReaderOptions {
  /** The stream's address with path and query, `ws:` only. */
  url: string
  /** How many readers. Default 1. */
  connections?: number
  /** A file with a line for each reader: what its query has besides that of `url`. Default: nothing. */
  queriesFile?: string
  /** How many addresses of this machine the readers come from. Default: one. Above one on Linux only. */
  addresses?: number
  /** The load that is replayed: the first reader notes when its events arrive. */
  measures?: LoadInfo
}

/** A child process with readers that only count. */
export class CountReader implements AsyncDisposable {
  readonly process: ServiceProcess

  constructor(process: ServiceProcess) {
    this.process = process
  }

  /** What the readers have seen so far. */
  async report(): Promise<CountReport> {
    return this.process.request<CountReport>('report')
  }

  /** Settles when every reader has seen `count` messages since it was opened. One caller at a time. */
  async waitFor(count: number): Promise<void> {
    await this.process.request('waitFor', count)
  }

  /** Settles when all readers together have seen `count` messages. One caller at a time. */
  async waitForTotal(count: number): Promise<void> {
    await this.process.request('waitForTotal', count)
  }

  /** Settles when the connection of some reader has ended; `report` tells why. */
  async waitForClose(): Promise<void> {
    await this.process.request('waitForClose')
  }

  /** When each event of the load arrived at the first reader, on the clock of `LoadHost.sendTimesMs`. */
  async arrivalsMs(): Promise<Float64Array> {
    return this.process.request<Float64Array>('arrivals')
  }

  async stop(): Promise<void> {
    await this.process.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

/** How long the process may take to start, and each connection to open. */
const startMs = 30_000
const openMs = 20

/** Starts readers; all of them are connected when this settles. */
export async function startCountReader(options: CountReaderOptions): Promise<CountReader> {
  const { connections = 1, measures, ...rest } = options
  const settings: CountReaderSettings = { ...rest, connections }
  if (measures !== undefined) {
    const { startMicros, stepMicros, parameters } = measures
    settings.measures = { startMicros, stepMicros, count: parameters.commits }
  }
  const entry = fileURLToPath(import.meta.resolve('./count-reader.ts'))
  const readyTimeoutMs = startMs + connections * openMs
  return new CountReader(await startProcess(entry, { args: [JSON.stringify(settings)], readyTimeoutMs }))
}

/** Delays in milliseconds, shortest first, of the events that were both sent and seen. */
export function delaysMs(sentMs: Float64Array, arrivedMs: Float64Array): Float64Array {
  const delays = sentMs.map((sent, event) => {
    const arrived = arrivedMs[event] ?? 0
    return sent === 0 || arrived === 0 ? NaN : arrived - sent
  })
  return delays.filter((delay) => !Number.isNaN(delay)).toSorted()
}

/** The value below which the given share of sorted values lies; NaN when there are none. */
export function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}
