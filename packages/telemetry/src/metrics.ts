import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'

export interface MetricOptions<L extends string> {
  /** The full name with its unit: `relay_events_refused_total`, `stream_flush_seconds`. */
  name: string
  help: string
  /** Each label takes few and known values: never a DID, an address, a cursor or anything out of a record. */
  labels?: readonly L[]
}

export interface Metrics {
  readonly registry: Registry
  counter<L extends string = never>(options: MetricOptions<L>): Counter<L>
  /** With `collect`, the value is taken when metrics are read. */
  gauge<L extends string = never>(
    options: MetricOptions<L> & { collect?: (gauge: Gauge<L>) => void },
  ): Gauge<L>
  histogram<L extends string = never>(
    options: MetricOptions<L> & { buckets: readonly number[] },
  ): Histogram<L>
  /** The Prometheus text of every metric. */
  text(): Promise<string>
  /** The content type of `text()`. */
  readonly contentType: string
}

/** A registry of its own for one service, with process, memory, garbage collection and event loop delay metrics. */
export function createMetrics(service: string): Metrics {
  const registry = new Registry()
  registry.setDefaultLabels({ service })
  collectDefaultMetrics({ register: registry })
  return {
    registry,
    counter: (options) => new Counter(configuration(registry, options)),
    gauge(options) {
      const { collect } = options
      const base = configuration(registry, options)
      if (collect === undefined) return new Gauge(base)
      const gauge: Gauge<NonNullable<typeof options.labels>[number]> = new Gauge({
        ...base,
        collect: () => collect(gauge),
      })
      return gauge
    },
    histogram: (options) =>
      new Histogram({ ...configuration(registry, options), buckets: [...options.buckets] }),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

function configuration<L extends string>(
  registry: Registry,
  { name, help, labels = [] }: MetricOptions<L>,
): { name: string; help: string; labelNames: readonly L[]; registers: Registry[] } {
  return { name, help, labelNames: labels, registers: [registry] }
}
