/** What a client is asked for, and cannot do, is told before anything is sent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStreamClient } from '../src/node.ts'
import { StreamServer } from './stream-server.ts'

test('options that no server would take are refused before anything is sent', async () => {
  await using server = await StreamServer.start()
  const client = createStreamClient({ url: server.url })
  const refused = [
    client.snapshot({ collections: ['*'] }),
    client.snapshot({ dids: ['alice.test'] }),
    client.snapshot({ afterSeq: -1 }),
    client.snapshot({ afterSeq: 5, beforeSeq: 5 }),
    client.replay({ kinds: ['account'], collections: ['org.impact.*'] }),
    client.live({ cursor: 1_764_117_000_000_000 }),
    client.replay({ cursor: 1_764_117_000_000_000 }),
  ]
  for (const reading of refused) await assert.rejects(reading.next(), { code: 'InvalidRequest' })
  const withoutUrl = {} as { url: string } // as a program in JavaScript may call it
  const wrong = [
    { url: 'localhost' },
    withoutUrl,
    { url: server.url, download: { parallel: 0 } },
    { url: server.url, download: { partBytes: Number.NaN } },
    { url: server.url, retry: { attemptsMax: 0 } },
    { url: server.url, retry: { maxMs: -1 } },
  ]
  for (const options of wrong)
    assert.throws(() => createStreamClient(options), { code: 'InvalidRequest' }, JSON.stringify(options))
  assert.equal(server.requests.length, 0)
})
