import { setTimeout } from 'node:timers/promises'
import { startCountReader, type CountReader, type LoadHost, type ServiceProcess } from '@tributary/testkit'
import { everyCommit, type WatchedEvents } from './watched-events.ts'

/** Longer than this nothing takes. */
const stallMs = 30_000

export interface Usage {
  cpuSeconds: number
  seconds: number
}

/** User and system CPU time of a process, and the time by the clock, while something is done. */
export async function usageOf(process: ServiceProcess, action: () => Promise<unknown>): Promise<Usage> {
  const startCpu = process.cpuSeconds()
  const startMs = performance.now()
  await action()
  return {
    cpuSeconds: process.cpuSeconds() - startCpu,
    seconds: (performance.now() - startMs) / 1000,
  }
}

/**
 * Waits until every reader has seen `count` messages, or all of them `together`. Throws when the process under test ends, when a reader is cut
 * off, and when nothing has arrived for a while: a figure of something that did not arrive is none.
 */
export async function allSeen(
  reader: CountReader,
  count: number,
  process: ServiceProcess,
  who: 'each' | 'together' = 'each',
): Promise<void> {
  const stopping = new AbortController()
  const failed = Promise.race([
    process.exited.then(() => 'the process under test ended'),
    reader.waitForClose().then(() => 'a reader was cut off'),
    stalled(reader, who, stopping.signal),
  ]).then(async (what) => {
    const report = JSON.stringify(await reader.report())
    throw new Error(`${what} before readers had ${count} messages: ${report}\n${process.stderr.slice(-2000)}`)
  })
  // Once all is seen, how the rest ends is nobody's concern.
  failed.catch(() => undefined)
  try {
    const seen = who === 'each' ? reader.waitFor(count) : reader.waitForTotal(count)
    await Promise.race([seen, failed])
  } finally {
    stopping.abort()
  }
}

/** Settles when the slowest reader, or all of them, got nothing between two looks. */
async function stalled(reader: CountReader, who: 'each' | 'together', signal: AbortSignal): Promise<string> {
  for (let seen = -1; ;) {
    const { messagesMin, messages } = await reader.report()
    const now = who === 'each' ? messagesMin : messages
    if (now === seen) return `nothing arrived for ${stallMs / 1000} s`
    seen = now
    await setTimeout(stallMs, undefined, { signal })
  }
}

/** One reader reads from `url` until it has seen `count` messages, and goes. */
export async function readThrough(process: ServiceProcess, url: string, count: number): Promise<void> {
  await using reader = await startCountReader({ url })
  await allSeen(reader, count, process)
}

export interface Intake {
  host: LoadHost
  /** The process under test. */
  process: ServiceProcess
  /** Where one reader waits for what comes out. */
  url: string
  /** How many further commits go in. */
  count: number
  /** How many messages come out of them. */
  messages: number
  /** Commits a second; flat out when left out. */
  rate?: number
}

/** What it takes a process to take in commits, until one reader has everything. */
export async function takeIn({ host, process, url, count, messages, rate }: Intake): Promise<Usage> {
  await using reader = await startCountReader({ url })
  return await usageOf(process, async () => {
    await host.play({ count, rate })
    await allSeen(reader, messages, process)
  })
}

/** Share of a load that makes practically all of its accounts known. */
const introductionShare = 0.1
/** A relay may ask the PLC directory for so many accounts a second only, and drops what waits for too long. */
const introductionRate = 2000

/**
 * Plays the beginning of a load slowly enough for every account to be looked up, so that what is measured afterwards
 * is the work and not the limits on looking up. Returns how many commits that were.
 */
export async function introduce(
  { host, process, url }: Pick<Intake, 'host' | 'process' | 'url'>,
  shown: WatchedEvents = everyCommit,
): Promise<number> {
  const count = Math.floor(host.info.parameters.commits * introductionShare)
  await takeIn({ host, process, url, count, messages: shown(count), rate: introductionRate })
  return count
}
