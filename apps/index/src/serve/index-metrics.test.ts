/** What an operator is told while the index works. */
import assert from 'node:assert/strict'
import { mkdtempDisposable, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openIndexReader, openIndexWriter } from '@tributary/index-store'
import { createLogger } from '@tributary/telemetry'
import { inTime, newPostgresDatabase } from '@tributary/testkit'
import { did } from '../../tests/scenario.ts'
import { createIndexMetrics } from './index-metrics.ts'

test('metrics are answered while a transaction goes on, as they were before it', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-metrics-'))
  const place = (await newPostgresDatabase()) ?? join(directory.path, 'index.sqlite')
  await using writer = await openIndexWriter(place)
  await using reader = openIndexReader(place)
  const { metrics } = createIndexMetrics({
    generation: () => 1,
    progress: () => undefined,
    rebuilding: () => undefined,
    isPreparing: () => false,
    reader,
    logger: createLogger('index-test', { level: 'silent' }),
  })
  const asked = (name: string) => ({ did: did(name), seq: 0n, attempts: 0n, dueAt: 0n })
  await writer.write((batch) => batch.put('handleRequests', [asked('a'), asked('b')]))
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const writing = writer.write(async (batch) => {
    await batch.put('handleRequests', [asked('c')])
    begun.resolve()
    await end.promise
  })
  try {
    await begun.promise
    assert.match(await inTime(metrics.text()), /^index_handles_waiting(?:\{.*\})? 2$/m)
  } finally {
    end.resolve()
    await writing
  }
})

test('metrics are answered while the database cannot be read, and the log says so once each time', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-metrics-'))
  const place = join(directory.path, 'index.sqlite')
  await using reader = openIndexReader(place)
  const lines: string[] = []
  const { metrics } = createIndexMetrics({
    generation: () => 7,
    progress: () => undefined,
    rebuilding: () => undefined,
    isPreparing: () => false,
    reader,
    logger: createLogger('index-test', { destination: { write: (line) => lines.push(line) } }),
  })
  const waiting = (): Promise<string> => metrics.registry.getSingleMetricAsString('index_handles_waiting')
  const text = await metrics.text()
  assert.match(text, /^index_generation(?:\{.*\})? 7$/m)
  assert.match(text, /^index_handles_waiting(?:\{.*\})? Nan$/m)
  await waiting()
  assert.equal(lines.length, 1)
  assert.match(String(lines[0]), /cannot be counted/)
  {
    await using _writer = await openIndexWriter(place)
    assert.match(await waiting(), / 0$/)
  }
  assert.equal(lines.length, 1)
  await rm(place)
  await waiting()
  assert.equal(lines.length, 2)
})
