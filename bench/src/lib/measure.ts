import type { CountReader, ServiceProcess } from '@tributary/testkit'

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
