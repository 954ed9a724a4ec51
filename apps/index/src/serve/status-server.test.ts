/** How far a running index is behind is told as three things: whether it follows the stream, its cursor, its newest event. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSettings, toEnvironment } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import { eventually, SmallStream } from '@tributary/testkit'
import { putEvent } from '../../tests/scenario.ts'
import { startIndex } from '../service.ts'
import { indexSettings } from '../settings.ts'

const first = '2026-03-04T12:00:00.000000Z'
const second = '2026-03-04T13:00:00.500000Z'
const eventAt = (seq: number, time: string) =>
  putEvent(seq, time, 'a', 'org.impact.context.evaluation', `r${seq}`, { seq }).event

test('metrics and health tell the cursor and the time of the newest event, and stay when the stream is away', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-status-'))
  await using stream = await SmallStream.start([eventAt(1, first)])
  const settings = readSettings(indexSettings, {
    env: toEnvironment(indexSettings, {
      port: 0,
      streamUrl: stream.url,
      plcUrl: 'http://127.0.0.1:1',
      databasePath: join(directory.path, 'index.sqlite'),
    }),
  })
  const logger = createLogger('status-test', { level: 'silent' })
  await using index = await startIndex(settings, { logger, signal: new AbortController().signal })
  const ask = async (path: string) => {
    const response = await fetch(`${index.address}${path}`)
    return [response.status, (await response.json()) as Record<string, unknown>] as const // of status-server.ts
  }
  /** Cursor, time in seconds, and whether the stream is followed. */
  const told = async (): Promise<unknown[]> => {
    const text = await (await fetch(`${index.address}/metrics`)).text()
    const valueOf = (name: string): number =>
      Number(new RegExp(`^${name}(?:\\{.*\\})? (.*)$`, 'm').exec(text)?.[1])
    return ['index_cursor', 'index_newest_event_timestamp_seconds', 'index_stream_live'].map(valueOf)
  }
  const becomes = (wanted: number, at: number): Promise<void> =>
    eventually(async () => {
      const [status, { cursor }] = await ask('/ready')
      return status === wanted && cursor === at
    })
  await becomes(200, 1)
  assert.deepEqual(await ask('/ready'), [200, { status: 'ready', cursor: 1 }])
  assert.deepEqual(await told(), [1, Date.parse(first) / 1000, 1])
  stream.send(eventAt(2, second))
  await becomes(200, 2)
  assert.deepEqual(await told(), [2, Date.parse(second) / 1000, 1])
  const [, health] = await ask('/_health')
  const { cursor, newestEventTime } = Object(health['stream']) as Record<string, unknown> // of status-server.ts
  assert.deepEqual([health['generation'], cursor, newestEventTime], [1, 2, second])

  await stream[Symbol.asyncDispose]()
  await becomes(503, 2)
  assert.deepEqual(await told(), [2, Date.parse(second) / 1000, 0])
  const [, { status, reason }] = await ask('/ready')
  assert.deepEqual([status, typeof reason], ['not_ready', 'string'])
})
