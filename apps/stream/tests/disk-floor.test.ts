import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'
/** Longer than a row takes to be shown, once the relay is connected. */
const shownWithinMs = 500

/** What `/ready` says of the relay and of the newest row. */
async function stateOf({ url }: TestStream): Promise<string> {
  const ready = (await (await fetch(`${url}/ready`)).json()) as { headSeq: number; relay: { state: string } } // of status-routes.ts
  return `${ready.relay.state}, ${ready.headSeq} rows`
}

test('below the floor of free disk a stream does not read its relay, and says so', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'disk-floor-'))
  const account = await host.createAccount({ announce: false })
  account.create(follow, {}, 'a')
  const settings = {
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    collections: [follow],
    verify: 'off',
  } as const
  {
    await using stream = await startTestStream({ ...settings, diskFreeMegabytesMin: 1_000_000_000 })
    await eventually(async () => (await stream.metric('stream_upstream_connected')) === 1)
    await pause(shownWithinMs)
    assert.equal(await stateOf(stream), 'paused-disk-floor, 0 rows')
    assert.equal(await stream.metric('stream_reading_paused'), 1)
    assert.ok((await stream.metric('stream_disk_free_bytes')) > 0)
  }
  await using stream = await startTestStream(settings)
  await eventually(
    async () => (await stateOf(stream)) === 'connected, 1 rows',
    () => stateOf(stream),
  )
  assert.equal(await stream.metric('stream_reading_paused'), 0)
})
