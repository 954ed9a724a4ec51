import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { MetricsText } from './metrics-text.ts'

export interface MetricOptions<L extends string> {
  /** The full name with its unit: `relay_events_refused_total`, `stream_flush_seconds`. */
  name: string
  help: string
  /** Each label takes few and known values: never a DID, an address, a cursor or anything out of a record. */
  labels?: readonly L[]
}

/** With `collect`, the values are taken when metrics are read; they begin empty each time. */
interface Collected<M> {
  collect?: (metric: M) => void | Promise<void>
}

export interface Metrics {
  readonly registry: Registry
  counter<L extends string = never>(options: MetricOptions<L> & Collected<Counter<L>>): Counter<L>
  gauge<L extends string = never>(options: MetricOptions<L> & Collected<Gauge<L>>): Gauge<L>
  histogram<L extends string = never>(
    options: MetricOptions<L> & Collected<Histogram<L>> & { buckets: readonly number[] },
  ): Histogram<L>
  /** The Prometheus text of every metric. Asked for without pause it is the one before (`MetricsText`). */
  text(): Promise<string>
  /** The content type of `text()`. */
  readonly contentType: string
}

/** A registry of its own for one service, with process, memory, garbage collection and event loop delay metrics. */
export function createMetrics(service: string): Metrics {
  const registry = new Registry()
  registry.setDefaultLabels({ service })
  collectDefaultMetrics({ register: registry })
  const text = new MetricsText(() => registry.metrics())
  return {
    registry,
    counter<L extends string>(options: MetricOptions<L> & Collected<Counter<L>>) {
      const counter: Counter<L> = new Counter(configuration(registry, options, () => counter))
      return counter
    },
    gauge<L extends string>(options: MetricOptions<L> & Collected<Gauge<L>>) {
      const gauge: Gauge<L> = new Gauge(configuration(registry, options, () => gauge))
      return gauge
    },
    histogram<L extends string>(
      options: MetricOptions<L> & Collected<Histogram<L>> & { buckets: readonly number[] },
    ) {
      const base = configuration(registry, options, () => histogram)
      const histogram: Histogram<L> = new Histogram({ ...base, buckets: [...options.buckets] })
      return histogram
    },
    text: () => text.read(),
    contentType: registry.contentType,
  }
}

function configuration<L extends string, M extends { reset: () => void }>(
  registry: Registry,
  { name, help, labels = [], collect }: MetricOptions<L> & Collected<M>,
  metric: () => M,
): {
  name: string
  help: string
  labelNames: readonly L[]
  registers: Registry[]
  collect?: () => void | Promise<void>
} {
  const base = { name, help, labelNames: labels, registers: [registry] }
  if (collect === undefined) return base
  const collectAnew = (): void | Promise<void> => {
    metric().reset()
    return collect(metric())
  }
  return { ...base, collect: collectAnew }
}
