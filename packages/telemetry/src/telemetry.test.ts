import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from './logger.ts'
import { createMetrics } from './metrics.ts'

function captured(level?: string): {
  logger: ReturnType<typeof createLogger>
  lines: Record<string, unknown>[]
} {
  const lines: Record<string, unknown>[] = []
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) }
  return { logger: createLogger('relay', { destination, ...(level === undefined ? {} : { level }) }), lines }
}

test('a log line is one JSON object with service, level as a word and ISO time', () => {
  const { logger, lines } = captured()
  logger.info({ host: 'pds.example', seq: 5 }, 'connected')
  logger.debug('not at this level')
  assert.equal(lines.length, 1)
  const { time, ...rest } = lines[0] ?? {}
  assert.deepEqual(rest, { level: 'info', service: 'relay', host: 'pds.example', seq: 5, msg: 'connected' })
  assert.equal(new Date(String(time)).toISOString(), time)
})

test('secrets do not reach the log, errors do with their cause', () => {
  const { logger, lines } = captured('debug')
  logger.debug({ headers: { authorization: 'Bearer x' }, apiKey: 'y', a: { b: { token: 'z' } } }, 'request')
  assert.doesNotMatch(JSON.stringify(lines), /Bearer x|"y"|"z"/)
  logger.error({ err: new Error('outer', { cause: new Error('inner') }) }, 'failed')
  assert.match(JSON.stringify(lines[1]), /outer.*inner/)
})

test('a minute has a hundred lines of one text, and how many were left out', ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  const { logger, lines } = captured('debug')
  const count = (text: string): number => lines.filter(({ msg }) => msg === text).length
  for (let minute = 1; minute <= 2; minute++) {
    for (let n = 0; n < 1000; n++) {
      logger.info({ n }, 'consumer ended')
      logger.error('failed')
      logger.debug({ n }, 'refused')
      logger.fatal({ n }, 'over')
    }
    logger.info('connected')
    assert.deepEqual(
      ['consumer ended', 'failed', 'refused', 'over', 'connected'].map(count),
      [100, 100, 1000, 1000, 1].map((each) => each * minute),
    )
    mock.timers.tick(60_000)
    const told = lines.slice(-2).map(({ level, leftOut, text }) => [level, leftOut, text])
    assert.deepEqual(told, [
      ['warn', 900, 'consumer ended'],
      ['warn', 900, 'failed'],
    ])
  }
})

test('metrics carry the service, and what the process does', async () => {
  const metrics = createMetrics('relay')
  metrics
    .counter({ name: 'events_total', help: 'Events.', labels: ['outcome'] })
    .inc({ outcome: 'refused' }, 2)
  metrics.gauge({ name: 'lag_seconds', help: 'Lag.', collect: (gauge) => gauge.set(1.5) })
  metrics.histogram({ name: 'flush_seconds', help: 'Flush.', buckets: [0.1, 1] }).observe(0.5)
  const text = await metrics.text()
  assert.match(text, /^events_total\{outcome="refused",service="relay"\} 2$/m)
  assert.match(text, /^lag_seconds\{service="relay"\} 1\.5$/m)
  assert.match(text, /^flush_seconds_bucket\{le="1",service="relay"\} 1$/m)
  assert.match(text, /^nodejs_eventloop_lag_p99_seconds\{/m)
  assert.match(text, /^process_resident_memory_bytes\{/m)
  assert.match(metrics.contentType, /^text\/plain/)
})

test('two services in one process do not share metrics', async () => {
  const [a, b] = [createMetrics('a'), createMetrics('b')]
  a.counter({ name: 'events_total', help: 'Events.' }).inc()
  b.counter({ name: 'events_total', help: 'Events.' })
  assert.match(await a.text(), /^events_total\{service="a"\} 1$/m)
  assert.match(await b.text(), /^events_total\{service="b"\} 0$/m)
})

test('what is collected when metrics are read begins empty each time', async () => {
  const metrics = createMetrics('relay')
  let reads = 0
  metrics.counter({ name: 'seen_total', help: 'Seen.', collect: (counter) => counter.inc(++reads) })
  metrics.gauge({
    name: 'hosts',
    help: 'Hosts.',
    labels: ['at'],
    collect: (gauge) => gauge.inc({ at: `${reads}` }),
  })
  metrics.histogram({ name: 'lag', help: 'Lag.', buckets: [1], collect: (histogram) => histogram.observe(5) })
  await metrics.text()
  const text = await metrics.text()
  assert.match(text, /^seen_total\{service="relay"\} 2$/m)
  assert.match(text, /^hosts\{at="2",service="relay"\} 1$/m)
  assert.doesNotMatch(text, /^hosts\{at="1"/m)
  assert.match(text, /^lag_count\{service="relay"\} 1$/m)
})
