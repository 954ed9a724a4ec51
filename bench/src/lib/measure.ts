import { startCountReader, type CountReader, type LoadHost, type ServiceProcess } from '@tributary/testkit'

/** Slower than this nothing is measured any more. */
const commitsPerSecondMin = 50

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
 * Waits until every reader has seen `count` messages. Throws when the process under test ends, when a reader is cut
 * off, and after `limitSeconds`: a figure of something that did not arrive is none.
 */
export async function allSeen(
  reader: CountReader,
  count: number,
  { process, limitSeconds }: { process: ServiceProcess; limitSeconds: number },
): Promise<void> {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => timeout.reject(new Error(`no end after ${limitSeconds} s`)),
    limitSeconds * 1000,
  )
  const ended = process.exited.then(() => Promise.reject(new Error('the process under test ended')))
  const cut = reader.waitForClose().then(() => Promise.reject(new Error('a reader was cut off')))
  try {
    await Promise.race([reader.waitFor(count), timeout.promise, ended, cut])
  } catch (error) {
    const report = JSON.stringify(await reader.report())
    throw new Error(`readers did not see ${count} messages: ${report}\n${process.stderr.slice(-2000)}`, {
      cause: error,
    })
  } finally {
    clearTimeout(timer)
    for (const promise of [ended, cut]) promise.catch(() => undefined)
  }
}

/** One reader reads from `url` until it has seen `messages`, and goes. */
export async function readThrough({
  process,
  url,
  messages,
  limitSeconds,
}: {
  process: ServiceProcess
  url: string
  messages: number
  limitSeconds: number
}): Promise<void> {
  await using reader = await startCountReader({ url })
  await allSeen(reader, messages, { process, limitSeconds })
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
}

/** What it takes a process to take in commits flat out, until one reader has everything. */
export async function takeIn({ host, process, url, count, messages }: Intake): Promise<Usage> {
  await using reader = await startCountReader({ url })
  return await usageOf(process, async () => {
    await host.play({ count })
    await allSeen(reader, messages, { process, limitSeconds: 60 + count / commitsPerSecondMin })
  })
}
