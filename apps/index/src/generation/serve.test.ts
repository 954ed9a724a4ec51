import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createStreamClient } from '@tributary/client/node'
import { openIndexReader, openIndexWriter } from '@tributary/index-store'
import { readSettings, toEnvironment } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import { eventually, SmallStream } from '@tributary/testkit'
import { day, putEvent, views } from '../../tests/scenario.ts'
import type { StreamProgress } from '../consume/stream-consumer.ts'
import { Fold } from '../fold/fold.ts'
import { createIndexMetrics } from '../serve/index-metrics.ts'
import { createStatusServer } from '../serve/status-server.ts'
import { indexSettings } from '../settings.ts'
import { createWatchers, serveGeneration } from './serve.ts'

test('while stored records are prepared again the stream is followed, and both are told', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'serve-'))
  const databasePath = join(directory.path, 'index.sqlite')
  const time = `${day}T12:00:00.000000Z`
  await using stream = await SmallStream.start([
    putEvent(1, time, 'a', 'org.impact.context.evaluation', 'r', {}).event,
  ])
  const own = { port: 0, streamUrl: stream.url, plcUrl: 'http://127.0.0.1:1', databasePath }
  const settings = readSettings(indexSettings, { env: toEnvironment(indexSettings, own) })
  const logger = createLogger('serve-test', { level: 'silent' })
  await using writer = await openIndexWriter(databasePath)
  await using reader = openIndexReader(databasePath)

  let progress: StreamProgress | undefined
  let isPreparing = false
  const status = {
    generation: () => 1,
    progress: () => progress,
    rebuilding: () => undefined,
    isPreparing: () => isPreparing,
  }
  const metrics = createIndexMetrics({ ...status, reader, logger })
  const server = createStatusServer({ ...status, metrics, logger })
  const { url } = await server.listen(settings)
  const ready = async (): Promise<unknown> => (await fetch(`${url}/ready`)).json()
  const gauge = (): Promise<string> =>
    metrics.metrics.registry.getSingleMetricAsString('index_preparing_again')

  const prepared = Promise.withResolvers<void>()
  /** So many records that it takes until the test has seen it. */
  class LargeFold extends Fold {
    override adopt(): Promise<void> {
      return prepared.promise
    }
  }
  const fold = new LargeFold(writer, { updateContentTypes: [] }, views)
  const client = createStreamClient({ url: stream.url })
  const stop = new AbortController()
  const parts = {
    settings,
    writer,
    fold,
    client,
    metrics,
    logger,
    ...createWatchers(settings, metrics, logger),
  }
  const served = serveGeneration(
    parts,
    (now) => (progress = now),
    (is) => (isPreparing = is),
    stop.signal,
  )
  await eventually(() => progress?.state === 'live' && progress.cursor === 1)
  const { detail, ...known } = Object(await ready()) as Record<string, unknown> // of status-server.ts
  assert.deepEqual(known, { status: 'ready', cursor: 1 })
  assert.match(String(detail), /prepared again/)
  assert.match(await gauge(), / 1$/)
  prepared.resolve()
  await eventually(() => !isPreparing)
  assert.deepEqual(await ready(), { status: 'ready', cursor: 1 })
  assert.match(await gauge(), / 0$/)
  stop.abort()
  await served
  await server.close()
})
