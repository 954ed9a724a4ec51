import type { ServiceProcess } from '@tributary/testkit'

/** A Prometheus histogram: how many values were at or below each bound. */
export type Histogram = ReadonlyMap<number, number>

const answerMs = 10_000

async function readLines(service: ServiceProcess): Promise<string[]> {
  const response = await fetch(`${service.url}/metrics`, { signal: AbortSignal.timeout(answerMs) })
  return (await response.text()).split('\n')
}

/** A counter out of a service's own metrics, all its labels together. */
export async function readCounter(service: ServiceProcess, name: string): Promise<number> {
  const lines = await readLines(service)
  const own = lines.filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  return own.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Reads a histogram without labels from a service's own metrics; empty when it has none of that name. */
export async function readHistogram(service: ServiceProcess, name: string): Promise<Histogram> {
  const counts = new Map<number, number>()
  for (const line of await readLines(service)) {
    if (!line.startsWith(`${name}_bucket{`)) continue
    const bound = /le="([^"]+)"/.exec(line)?.[1]
    counts.set(bound === '+Inf' ? Infinity : Number(bound), Number(line.split(' ').at(-1)))
  }
  return counts
}

/**
 * The value below which the given share of what was counted between two readings lies, by straight lines between the
 * bounds; NaN when nothing was counted.
 */
export function quantileBetween(before: Histogram, after: Histogram, share: number): number {
  const counts = [...after].map(([bound, count]) => ({ bound, count: count - (before.get(bound) ?? 0) }))
  const wanted = (counts.at(-1)?.count ?? 0) * share
  let below = { bound: 0, count: 0 }
  for (const at of counts) {
    if (at.count >= wanted && at.count > below.count) {
      if (at.bound === Infinity) return below.bound
      return below.bound + ((at.bound - below.bound) * (wanted - below.count)) / (at.count - below.count)
    }
    below = at
  }
  return NaN
}
