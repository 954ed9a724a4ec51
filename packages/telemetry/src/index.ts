/** What operators read while a service runs: log lines on stderr, and metrics for Prometheus. */
export { createLogger, type Logger, type LoggerOptions } from './logger.ts'
export { createMetrics, type MetricOptions, type Metrics } from './metrics.ts'
